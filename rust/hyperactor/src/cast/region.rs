//! Regions of a mesh, as they travel: so many numbers as there are dimensions, however many ranks they name.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Ranks of a root mesh in the order of a view: its *places*. Row-major, the last dimension fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    offset: u32,
    dims: Vec<Dim>,
}

/// What one dimension adds to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Dim {
    Steps { count: u32, step: u32 },
    Offsets(Vec<u32>),
}

/// A rank, and its place in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The rank in the root mesh.
    pub rank: u32,
    /// The place in the view.
    pub place: u32,
}

/// Most dimensions of a region that came from elsewhere.
const MOST_DIMS: usize = 32;

impl Dim {
    fn count(&self) -> u64 {
        match self {
            Self::Steps { count, .. } => u64::from(*count),
            Self::Offsets(offsets) => offsets.len() as u64,
        }
    }

    /// The most that it adds.
    fn extent(&self) -> u64 {
        match self {
            Self::Steps { count, step } => u64::from(count.saturating_sub(1)) * u64::from(*step),
            Self::Offsets(offsets) => u64::from(offsets.iter().copied().max().unwrap_or(0)),
        }
    }

    /// The indices at which what it adds to `base`, and up to `inner` beyond, can lie in `range`.
    fn indices(&self, base: u64, inner: u64, range: &Range<u64>) -> Range<u64> {
        match self {
            Self::Steps { count, step } if *step > 0 => {
                let step = u64::from(*step);
                let first = range.start.saturating_sub(base + inner).div_ceil(step);
                let end = range.end.saturating_sub(base).div_ceil(step);
                first..end.min(u64::from(*count))
            }
            Self::Offsets(offsets) if offsets.is_sorted() => {
                let first = offsets.partition_point(|offset| base + u64::from(*offset) + inner < range.start);
                let end = offsets.partition_point(|offset| base + u64::from(*offset) < range.end);
                first as u64..end as u64
            }
            _ => 0..self.count(),
        }
    }

    fn at(&self, index: u64) -> u64 {
        match self {
            Self::Steps { step, .. } => index * u64::from(*step),
            Self::Offsets(offsets) => offsets.get(index as usize).copied().map_or(0, u64::from),
        }
    }
}

impl Region {
    /// The region that names these ranks in this order, in as few numbers as their regularity allows.
    pub fn of(ranks: &[u32]) -> Self {
        let mut heads = ranks.to_vec();
        let mut dims = Vec::new();
        while heads.len() > 1 {
            let Some((count, step)) = regular_blocks(&heads) else {
                let offset = heads.iter().copied().min().unwrap_or(0);
                heads.iter_mut().for_each(|head| *head -= offset);
                dims.push(Dim::Offsets(heads));
                heads = vec![offset];
                break;
            };
            dims.push(Dim::Steps { count, step });
            heads = heads.into_iter().step_by(count as usize).collect();
        }
        if ranks.is_empty() {
            dims.push(Dim::Steps { count: 0, step: 1 });
        }
        dims.reverse();
        Self { offset: heads.first().copied().unwrap_or(0), dims }
    }

    /// Whether it can be used: one that came from elsewhere may name more than there can be.
    pub fn is_sound(&self) -> bool {
        let count = self.dims.iter().try_fold(1u64, |count, dim| count.checked_mul(dim.count()));
        let extent = self.dims.iter().try_fold(u64::from(self.offset), |extent, dim| extent.checked_add(dim.extent()));
        let fits = |value: Option<u64>| value.is_some_and(|value| value <= u64::from(u32::MAX));
        let moves = |dim: &Dim| !matches!(dim, Dim::Steps { count: 2.., step: 0 });
        let has_members = self.dims.len() == 1 || count != Some(0);
        self.dims.len() <= MOST_DIMS && fits(count) && fits(extent) && has_members && self.dims.iter().all(moves)
    }

    /// How many places it has.
    pub fn len(&self) -> u64 {
        self.dims.iter().map(Dim::count).product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its members whose ranks lie in `range`, in the order of the view. What lies elsewhere costs next to nothing.
    pub fn members_in(&self, range: Range<u32>) -> Vec<Member> {
        let mut members = Vec::new();
        let within = u64::from(range.start)..u64::from(range.end);
        collect(&self.dims, u64::from(self.offset), 0, &within, &mut members);
        members
    }

    /// How many of its members have ranks in `range`, without looking at each.
    pub fn count_in(&self, range: Range<u32>) -> u64 {
        let within = u64::from(range.start)..u64::from(range.end);
        count(&self.dims, u64::from(self.offset), &within)
    }
}

/// The first run of ranks with one step, if all ranks are copies of it: its length and step.
fn regular_blocks(ranks: &[u32]) -> Option<(u32, u32)> {
    let step = ranks.get(1)?.checked_sub(*ranks.first()?).filter(|step| *step > 0)?;
    let continues = |pair: &[u32]| pair[1].checked_sub(pair[0]) == Some(step);
    let count = 1 + ranks.windows(2).take_while(|pair| continues(pair)).count();
    let is_copy = |block: &[u32]| block.windows(2).all(continues);
    let regular = ranks.len().is_multiple_of(count) && ranks.chunks(count).all(is_copy);
    regular.then_some((count as u32, step))
}

fn size_and_extent(dims: &[Dim]) -> (u64, u64) {
    (dims.iter().map(Dim::count).product(), dims.iter().map(Dim::extent).sum())
}

fn collect(dims: &[Dim], base: u64, place: u64, range: &Range<u64>, members: &mut Vec<Member>) {
    let Some((dim, inner)) = dims.split_first() else {
        if range.contains(&base) {
            members.push(Member { rank: base as u32, place: place as u32 });
        }
        return;
    };
    let (size, extent) = size_and_extent(inner);
    for index in dim.indices(base, extent, range) {
        collect(inner, base + dim.at(index), place + index * size, range, members);
    }
}

fn count(dims: &[Dim], base: u64, range: &Range<u64>) -> u64 {
    let Some((dim, inner)) = dims.split_first() else { return u64::from(range.contains(&base)) };
    let (size, extent) = size_and_extent(inner);
    let touched = dim.indices(base, extent, range);
    let counted = |index| {
        let first = base + dim.at(index);
        let is_inside = range.start <= first && first + extent < range.end;
        if is_inside { size } else { count(inner, first, range) }
    };
    let Dim::Steps { step, .. } = dim else { return touched.map(counted).sum() };
    // Only the first and last steps may lie across a border of the range.
    let across = extent / u64::from(*step).max(1) + 1;
    if touched.end.saturating_sub(touched.start) <= 2 * across {
        return touched.map(counted).sum();
    }
    let whole = touched.start + across..touched.end - across;
    let edges = (touched.start..whole.start).chain(whole.end..touched.end).map(counted).sum::<u64>();
    edges + (whole.end - whole.start) * size
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(region: &Region) -> Vec<u32> {
        region.members_in(0..u32::MAX).into_iter().map(|member| member.rank).collect()
    }

    /// Views as programs make them: a slice of a mesh, its dimensions perhaps in another order.
    fn views() -> impl Strategy<Value = Vec<u32>> {
        let dim = (1u32..5, 1u32..3, 0u32..2);
        (prop::collection::vec(dim, 1..4), any::<bool>()).prop_map(|(dims, turned)| {
            let mut strides = Vec::new();
            let mut stride = 1;
            for (count, step, spare) in dims.iter().rev() {
                strides.insert(0, stride);
                stride *= count * step + spare;
            }
            let mut axes: Vec<(u32, u32)> =
                dims.iter().zip(&strides).map(|((count, step, _), stride)| (*count, step * stride)).collect();
            if turned {
                axes.reverse();
            }
            axes.iter().fold(vec![3], |ranks, (count, step)| {
                ranks.iter().flat_map(|rank| (0..*count).map(move |index| rank + index * step)).collect()
            })
        })
    }

    proptest! {
        #[test]
        fn a_region_names_the_ranks_that_it_was_made_of(ranks in prop::collection::vec(0u32..100, 0..20)) {
            let region = Region::of(&ranks);
            prop_assert!(region.is_sound());
            prop_assert_eq!(all(&region), ranks);
        }

        #[test]
        fn a_region_is_cut_by_ranges_of_ranks(ranks in views(), cut in (0u32..150, 0u32..150)) {
            let region = Region::of(&ranks);
            let range = cut.0.min(cut.1)..cut.0.max(cut.1);
            let places = (0..).zip(&ranks).map(|(place, rank)| Member { rank: *rank, place });
            let expected: Vec<Member> = places.filter(|member| range.contains(&member.rank)).collect();
            prop_assert_eq!(region.count_in(range.clone()), expected.len() as u64);
            prop_assert_eq!(region.members_in(range), expected);
        }

        #[test]
        fn garbage_is_refused_or_harmless(garbage in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(region) = postcard::from_bytes::<Region>(&garbage)
                && region.is_sound()
            {
                let members = region.members_in(5..7).len() as u64;
                prop_assert_eq!(region.count_in(5..7), members);
            }
        }
    }

    #[test]
    fn a_regular_region_takes_a_few_bytes_however_many_ranks_it_names() {
        let ranks: Vec<u32> = (0..131_072).filter(|rank| rank % 32 < 4).collect();
        let region = Region::of(&ranks);
        assert_eq!(region.len(), ranks.len() as u64);
        assert!(postcard::to_allocvec(&region).unwrap().len() < 16);
        assert_eq!(region.count_in(64..128), 8);
    }

    #[test]
    fn a_region_without_one_block_lists_only_the_blocks() {
        let ranks: Vec<u32> = (0..64).filter(|rank| !(16..24).contains(rank)).collect();
        let region = Region::of(&ranks);
        assert_eq!(all(&region), ranks);
    }
}
