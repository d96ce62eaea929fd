//! Headers and checksums in what is written, and finding out what came back wrong.
