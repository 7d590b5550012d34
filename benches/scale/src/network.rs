//! The servers and the proxies between them, and the lines of the clients.

use anyhow::Result;

use crate::faults::Faults;
use crate::line::Line;
use crate::model::Model;
use crate::proxy::Proxy;
use crate::servers::{Cache, Server};

/// The line between the origin and the cache: another region.
const ORIGIN_LINE: Line = Line::new(400, 50);

/// The lines of clients, in equal numbers.
pub(crate) const CLIENT_LINES: [Line; 3] = [Line::new(5, 40), Line::new(20, 20), Line::new(100, 10)];

/// Clients' lines → cache → line → origin. The parts end in this order.
pub(crate) struct Network {
    pub(crate) edge: Proxy,
    _cache: Server,
    _fill: Proxy,
    pub(crate) origin: Server,
}

impl Network {
    /// Starts all servers, and a proxy with a line for each client.
    pub(crate) fn start(model: &Model, cache: Cache, lines: &[Line], faults: Faults, seed: u64) -> Result<Network> {
        let origin = Server::origin(model.folder.path())?;
        let fill = Proxy::start(origin.address, &[ORIGIN_LINE], Faults::default(), seed)?;
        let cache = Server::cache(cache, fill.address()?)?;
        let edge = Proxy::start(cache.address, lines, faults, seed)?;
        Ok(Network { edge, _cache: cache, _fill: fill, origin })
    }
}
