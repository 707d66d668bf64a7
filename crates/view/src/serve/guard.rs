//! Who is answered: those who know the token, and whose browser asked this server by its own name.

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::uri::{Authority, Uri};
use std::net::{IpAddr, SocketAddr};
use subtle::ConstantTimeEq;

/// Bytes of a token.
const TOKEN: usize = 16;
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[derive(Debug)]
pub(super) struct Guard {
    token: String,
    address: SocketAddr,
    /// The name that the server was asked to listen at, which a browser may have in its request.
    name: String,
}

impl Guard {
    pub(super) fn new(address: SocketAddr, name: &str) -> Result<Self, getrandom::Error> {
        let mut random = [0; TOKEN];
        getrandom::fill(&mut random)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Guard { token, address, name: name.to_owned() })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns what of a path follows the token, if that is the right one.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.strip_prefix('/')?;
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        // In a time that does not say where they differ.
        bool::from(token.as_bytes().ct_eq(self.token.as_bytes())).then_some(rest)
    }

    /// Returns whether a request was made to this server by its own name, and not by a page of another site: a name
    /// that such a page has made to resolve to this address (DNS rebinding) is not this server's.
    pub(super) fn is_own(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(host) = text(HOST).and_then(|host| host.parse::<Authority>().ok()) else {
            return false;
        };
        let from = text(SEC_FETCH_SITE).unwrap_or("none");
        let origin = headers.get(ORIGIN).map(|value| {
            let uri = value.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
            uri.is_some_and(|uri| uri.authority() == Some(&host))
        });
        self.is_own_name(&host) && matches!(from, "none" | "same-origin") && origin.unwrap_or(true)
    }

    fn is_own_name(&self, host: &Authority) -> bool {
        let name = host.host();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        // No name resolves to an address that is written out.
        let is_address = bare.parse::<IpAddr>().is_ok();
        let is_known =
            name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(&self.name);
        (is_address || is_known) && host.port_u16().unwrap_or(80) == self.address.port()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    fn guard() -> Guard {
        Guard::new("127.0.0.1:4000".parse().unwrap(), "shop.example").unwrap()
    }

    #[test]
    fn only_the_whole_token_opens_a_path() {
        let guard = guard();
        let token = guard.token().to_owned();
        assert_eq!(token.len(), 32);
        assert_ne!(token, Guard::new(guard.address, "").unwrap().token());
        assert_eq!(guard.inside(&format!("/{token}/api/rings")), Some("api/rings"));
        assert_eq!(guard.inside(&format!("/{token}")), Some(""));
        for path in
            ["", "/", "/x/api", &token, &format!("/{}", &token[..31]), &format!("/{token}0/")]
        {
            assert_eq!(guard.inside(path), None, "{path}");
        }
    }

    #[test]
    fn a_name_that_was_made_to_resolve_here_is_refused() {
        let guard = guard();
        let is_own = |lines: &[(&'static str, &str)]| {
            let name = |name: &'static str| HeaderName::from_static(name);
            let all = lines.iter().map(|(at, value)| (name(at), value.parse().unwrap()));
            guard.is_own(&all.collect())
        };
        for host in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000", "shop.example:4000"] {
            assert!(is_own(&[("host", host)]), "{host}");
            assert!(is_own(&[("host", host), ("sec-fetch-site", "same-origin")]));
            assert!(is_own(&[("host", host), ("origin", &format!("http://{host}"))]));
            assert!(!is_own(&[("host", host), ("sec-fetch-site", "cross-site")]));
            assert!(!is_own(&[("host", host), ("origin", "http://evil.example")]));
            assert!(!is_own(&[("host", host), ("origin", "null")]));
        }
        for host in
            ["evil.example:4000", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:4000", ""]
        {
            assert!(!is_own(&[("host", host)]), "{host}");
        }
        assert!(!is_own(&[]));
    }
}
