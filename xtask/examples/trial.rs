fn main() {
    let named = std::fs::read("/work/main/target/pkg/named.wasm").unwrap();
    let parts = xtask::split::split(&named).unwrap();
    for p in &parts {
        println!("{} raw, {:.1} brotli", p.len(), xtask::package::brotli(p).unwrap().len() as f64 / 1024.0);
    }
    for e in xtask::split::entries(&named).unwrap() {
        println!("{e}");
    }
}
