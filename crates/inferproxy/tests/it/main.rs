//! inferproxy behind its socket, against a scripted model server.

mod support;

mod backends;
mod faults;
mod limits_of_calls;
mod probe;
mod slots;
mod stops;
mod streams;
