//! Renders a Report: one file per format.
