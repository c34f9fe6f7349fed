"""Recovery that programs need not write: restarts by a policy, calls that are repeated, pools that replace members."""
