//! What a job's next request is: direction, file, offset and size, drawn from the job's options. Pure and seeded.
