//! Reads the table of the layers.

/// The layers from top to bottom.
pub(super) struct Table {
    rows: Vec<String>,
    layers: Vec<Layer>,
}

struct Layer {
    name: String,
    modules: Vec<String>,
}

impl Table {
    /// Reads the table with the header `| layer |` of the documentation of a module.
    pub(super) fn parse(source: &str) -> Self {
        let lines = source.lines().filter_map(|line| line.strip_prefix("//! "));
        let in_table = lines.skip_while(|line| !line.starts_with("| layer |")).take_while(|line| line.starts_with('|'));
        let rows: Vec<_> = in_table.map(without_links).collect();
        let mut layers: Vec<Layer> = Vec::new();
        for row in rows.iter().skip(2) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let (name, modules) = (cells[1], cells[2]);
            if !name.is_empty() {
                layers.push(Layer { name: name.to_owned(), modules: Vec::new() });
            }
            // Each second part is between backquotes. Other names of code are those of features and crates.
            let parts: Vec<_> = modules.split('`').collect();
            let is_module = |(before, _): &(&str, &str)| !before.ends_with("feature ") && !before.ends_with("crate ");
            let named =
                parts.iter().copied().step_by(2).zip(parts.iter().copied().skip(1).step_by(2)).filter(is_module);
            layers.last_mut().unwrap().modules.extend(named.map(|(_, module)| module.to_owned()));
        }
        Table { rows, layers }
    }

    /// The lines of the table as Markdown without links.
    pub(super) fn rows(&self) -> &[String] {
        &self.rows
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = &String> {
        self.layers.iter().flat_map(|layer| &layer.modules)
    }

    /// The number of the layer of a module, from the top.
    pub(super) fn layer_of(&self, module: &str) -> Option<usize> {
        let top_level = module.split("::").next().unwrap_or_default();
        self.layers.iter().position(|layer| layer.modules.iter().any(|listed| listed == top_level))
    }

    pub(super) fn name(&self, layer: usize) -> &str {
        &self.layers[layer].name
    }
}

fn without_links(row: &str) -> String {
    row.replace("[`", "`").replace("`]", "`").replace("`mod@", "`")
}
