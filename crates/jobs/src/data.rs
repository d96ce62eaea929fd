//! What a job's writes contain.
