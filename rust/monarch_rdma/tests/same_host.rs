//! Transfers through the lease table, within one process: to the kernel that is a process like any other.
#![cfg(all(target_os = "linux", not(feature = "portable")))]
#![allow(unsafe_code, clippy::unwrap_used)] // Memory is named by its address here; a failed test panics anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use monarch_rdma::{BufferHandle, Capability, Copy, RdmaError, Region, Registration, Rights, Transfer, drop_remotely};

const PATIENCE: Duration = Duration::from_secs(10);

fn register(memory: &mut [u8], rights: Rights) -> Registration {
    let region = Region::new(memory.as_mut_ptr() as u64, memory.len() as u64).unwrap();
    Registration::new("test".to_owned(), region, rights).unwrap()
}

fn copy(handle: &BufferHandle, memory: &mut [u8], offset_bytes: u64, writes: bool) -> Copy {
    let (address, size_bytes) = (memory.as_mut_ptr() as u64, memory.len() as u64);
    Copy { handle: Arc::new(handle.clone()), offset_bytes, address, size_bytes, writes }
}

fn run(copies: Vec<Copy>, deadline: Option<Instant>) -> Vec<(usize, RdmaError)> {
    let (told, over) = mpsc::channel();
    // SAFETY: the memory of the copies belongs to whoever calls this, who waits here.
    let transfer = unsafe { Transfer::start(copies, deadline, 2, move || told.send(()).unwrap()) };
    over.recv().unwrap();
    assert!(transfer.is_over());
    transfer.take_errors()
}

fn read(handle: &BufferHandle, memory: &mut [u8]) -> Result<(), RdmaError> {
    run(vec![copy(handle, memory, 0, false)], None).pop().map_or(Ok(()), |(_, error)| Err(error))
}

fn write(handle: &BufferHandle, memory: &mut [u8]) -> Result<(), RdmaError> {
    run(vec![copy(handle, memory, 0, true)], None).pop().map_or(Ok(()), |(_, error)| Err(error))
}

#[test]
fn bytes_of_any_length_arrive_in_both_directions_and_nothing_beside_them_changes() {
    for size in [1, 4095, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (9 << 20) + 3] {
        let mut owned: Vec<u8> = (0..size).map(|index| (index * 7 % 251) as u8).collect();
        let expected = owned.clone();
        let registration = register(&mut owned, Rights::ReadWrite);
        let mut local = vec![0; size + 2];
        read(&registration.handle(), &mut local[1..=size]).unwrap();
        assert!(local[1..=size] == expected && local[0] == 0 && local[size + 1] == 0);
        local.fill(9);
        write(&registration.handle(), &mut local[..size]).unwrap();
        assert!(registration.release(PATIENCE));
        assert!(owned.iter().all(|byte| *byte == 9));
    }
}

#[test]
fn a_batch_moves_what_it_can_and_names_each_copy_that_failed() {
    let mut owned = [vec![1; 100], vec![2; 100], vec![3; 100]];
    let mut registrations: Vec<_> = owned.iter_mut().map(|memory| register(memory, Rights::ReadWrite)).collect();
    let handles: Vec<_> = registrations.iter().map(Registration::handle).collect();
    assert!(registrations.remove(1).release(PATIENCE));
    let mut local = vec![vec![0; 100], vec![0; 100], vec![0; 100]];
    let copies = handles.iter().zip(&mut local).map(|(handle, memory)| copy(handle, memory, 0, false)).collect();
    let errors = run(copies, None);
    assert!(matches!(errors[..], [(1, RdmaError::Gone { .. })]), "{errors:?}");
    assert_eq!((local[0][0], local[1][0], local[2][0]), (1, 0, 3));
}

#[test]
fn a_handle_without_the_right_key_finds_nothing_and_one_for_reading_never_writes() {
    let mut owned = vec![5; 64];
    let registration = register(&mut owned, Rights::ReadWrite);
    let mut local = vec![0; 64];
    let forged = BufferHandle { capability: Capability::from_random([0; 16]), ..registration.handle() };
    assert!(matches!(read(&forged, &mut local), Err(RdmaError::Gone { .. })));
    let reader = registration.read_only_handle();
    read(&reader, &mut local).unwrap();
    assert!(matches!(write(&reader, &mut local), Err(RdmaError::ReadOnly { .. })));
    // Its key is not that for writing, whatever the handle says of itself.
    let boasting = BufferHandle { rights: Rights::ReadWrite, ..reader };
    assert!(matches!(write(&boasting, &mut local), Err(RdmaError::Gone { .. })));
    drop_remotely(&boasting).unwrap();
    assert!(registration.is_live());
    let long = BufferHandle { size_bytes: 1 << 40, ..registration.handle() };
    assert!(matches!(read(&long, &mut [0; 65]), Err(RdmaError::OutOfRange { .. })));
    drop_remotely(&registration.handle()).unwrap();
    assert!(!registration.is_live());
    assert!(matches!(read(&registration.handle(), &mut local), Err(RdmaError::Gone { .. })));
    assert!(registration.release(PATIENCE));
}

#[test]
fn read_only_memory_cannot_be_written_with_any_key_that_its_owner_has() {
    let mut owned = vec![5; 64];
    let registration = register(&mut owned, Rights::Read);
    let forged = BufferHandle {
        rights: Rights::ReadWrite,
        capability: Capability::from_random([0; 16]),
        ..registration.handle()
    };
    assert!(matches!(write(&forged, &mut [7; 64]), Err(RdmaError::Gone { .. })));
    assert!(registration.release(PATIENCE));
    assert_eq!(owned, [5; 64]);
}

#[test]
fn a_transfer_without_time_left_moves_nothing_and_one_that_is_cancelled_ends_early() {
    let mut owned = vec![5; 64 << 20];
    let registration = register(&mut owned, Rights::ReadWrite);
    let mut local = vec![0; 64 << 20];
    let errors = run(vec![copy(&registration.handle(), &mut local, 0, false)], Some(Instant::now()));
    assert!(matches!(errors[..], [(0, RdmaError::TimedOut { done_bytes: 0, .. })]), "{errors:?}");
    let (told, over) = mpsc::channel();
    let copies = (0..64).map(|_| copy(&registration.handle(), &mut local, 0, false)).collect();
    // SAFETY: the memory lives until `over` says so.
    let transfer = unsafe { Transfer::start(copies, None, 2, move || told.send(()).unwrap()) };
    transfer.cancel();
    over.recv().unwrap();
    assert!(transfer.take_errors().iter().any(|(_, error)| matches!(error, RdmaError::Cancelled)));
    assert!(registration.release(PATIENCE));
}

/// Every block holds the number of its registration, in all bytes; once it is released it holds 255, and then is freed.
/// No reader may see 255, and no writer may change a block that was released.
fn blocks_come_and_go(rounds: usize) {
    let current = Arc::new(parking_lot::Mutex::new(None::<(BufferHandle, u8)>));
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..3)
        .map(|number| {
            let (current, over) = (current.clone(), over.clone());
            thread::spawn(move || {
                let mut moved = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    let Some((handle, mark)) = current.lock().clone() else { continue };
                    let mut local = vec![mark; 256];
                    let outcome = if number == 0 { write(&handle, &mut local) } else { read(&handle, &mut local) };
                    match outcome {
                        Ok(()) => moved += 1,
                        Err(RdmaError::Gone { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    assert!(local.iter().all(|byte| *byte == mark), "the bytes of another block, or of none");
                }
                moved
            })
        })
        .collect();
    for round in 0..rounds {
        let mark = (round % 250) as u8;
        let mut block = vec![mark; 256];
        let registration = register(&mut block, Rights::ReadWrite);
        *current.lock() = Some((registration.handle(), mark));
        if round % 4 == 0 {
            thread::yield_now();
        }
        assert!(registration.release(PATIENCE));
        block.fill(255);
        thread::yield_now();
        assert!(block.iter().all(|byte| *byte == 255), "somebody wrote to memory that was released");
    }
    over.store(true, Ordering::Relaxed);
    assert!(others.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>() > 0, "nothing was moved meanwhile");
}

#[test]
fn memory_is_never_touched_after_its_release() {
    blocks_come_and_go(1_500);
}

#[test]
#[ignore = "a million rounds take minutes"]
fn memory_is_never_touched_after_its_release_in_a_million_rounds() {
    blocks_come_and_go(1_000_000);
}
