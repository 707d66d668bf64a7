//! What outputs are, and what they share.

pub mod backoff;
pub mod checks;
pub mod compress;
pub mod dead_letter_file;
pub mod dead_letters;
pub mod draft;
pub mod left_out;
pub mod null;
pub mod opener;
pub mod output;
pub mod refusals;
pub mod replace;
pub mod rotated;
pub mod series;
pub mod stream;
pub mod terms;
pub mod thread;
pub mod tries;
pub mod write_error;
