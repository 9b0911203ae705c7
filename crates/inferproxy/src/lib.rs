//! The only way to a model on this box: slots, liveness, metrics, wire dump.
