//! Every form of a comparison, with hostile names.
