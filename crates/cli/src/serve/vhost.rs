//! `varve serve vhost-user`: a stack as the disk of a virtual machine.

use lab::LabError;

use crate::args::ServeVhost;

#[cfg(not(feature = "vhost-user"))]
pub(super) fn serve_vhost(_: &ServeVhost) -> Result<(), LabError> {
    Err(LabError::Input(
        "this program was built without the feature vhost-user: \
         `cargo build --release --features vhost-user` builds one with it"
            .to_string(),
    ))
}

#[cfg(feature = "vhost-user")]
pub(super) fn serve_vhost(args: &ServeVhost) -> Result<(), LabError> {
    use std::sync::Arc;

    use serve::nbd::Address;
    use serve::vhost::{Options, Server};

    use super::{close, say_timing, start, until_stopped};
    use crate::print;

    let (stack, control, socket) = start(&args.stack)?;
    let options = Options { queues: args.queues, block: args.block };
    let place = args.socket.display();
    let failed = |error| LabError::Failed(format!("{place}: {error}"));
    let address = Address::Unix(args.socket.clone());
    let server = Server::bind(&address, Arc::clone(&stack.disk), options).map_err(failed)?;
    let handle = server.handle();
    let counted = handle.clone();
    control.count(Box::new(move || counted.counters()));
    print(&format!("{place}\n{}\n{}\n", stack.name, server.list()))?;
    say_timing(&args.stack)?;
    let ended = until_stopped(&args.place, args.ready_fd, move || server.run(), || handle.stop());
    drop(socket);
    close(&stack)?;
    ended?.map_err(failed)
}
