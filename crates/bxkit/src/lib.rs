//! What every role needs of the world: sockets, configuration, streams, the daemon shell.
