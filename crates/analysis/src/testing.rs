//! Hand-built Records for tests.
