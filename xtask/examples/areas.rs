use std::collections::BTreeMap;
use xtask::call_graph::CallGraph;
fn main() {
    let depth: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let named = std::fs::read("/work/main/target/pkg/named.wasm").unwrap();
    let graph = CallGraph::read(&named).unwrap();
    let div = graph.division(xtask::split::part_of_function());
    let mut sizes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (n, (name, code)) in graph.list().enumerate() {
        if div.homes[n] != 0 {
            continue;
        }
        let own = name
            .strip_prefix("core::ptr::drop_in_place")
            .map(|n| format!("drop {}", n.trim_start_matches('<')))
            .unwrap_or(name.trim_start_matches(['<', '&']).to_owned());
        let key: Vec<&str> = own.split("::").take(depth).collect();
        let e = sizes.entry(key.join("::").chars().take(90).collect()).or_default();
        e.0 += code;
        e.1 += 1;
    }
    let mut v: Vec<_> = sizes.into_iter().collect();
    v.sort_by_key(|(_, s)| std::cmp::Reverse(s.0));
    for (k, (s, c)) in v.into_iter().take(110) {
        println!("{s:7} {c:4} {k}");
    }
}
