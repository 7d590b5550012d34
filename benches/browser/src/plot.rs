//! A chart of the ratios: a bar for each case, a mark for its goal, and a line at 1 for plain `fetch`.

use std::fmt::Write;

use crate::cases::TIME;
use crate::report::{Report, Row};

const WIDTH: f64 = 800.0;
const ROW: f64 = 30.0;
const TOP: f64 = 62.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 70.0;

/// Colors for light and dark color schemes.
pub(super) const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px } .faint { fill: #57606a }
  .met { fill: #2f81c7 } .missed { fill: #d1762f } .open { fill: #8c959f }
  .goal { stroke: #24292f; stroke-width: 2 } .one { stroke: #57606a; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .faint { fill: #9da7b1 } .goal { stroke: #e6edf3 } .one { stroke: #9da7b1 }
  }
";

pub(super) fn svg(report: &Report) -> String {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.quantity == TIME).collect();
    let max = rows.iter().flat_map(|row| [row.value, row.goal.unwrap_or(0.0)]).fold(1.1, f64::max);
    let x = |ratio: f64| LEFT + ratio / max * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
         aria-label=\"Time to load, against fetch().arrayBuffer()\">\n<style>{STYLE}</style>\n",
        bottom + 40.0
    );
    let mut text = |class: &str, anchor: &str, x: f64, y: f64, text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ =
            writeln!(svg, "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    };
    text("title", "start", 12.0, 24.0, "Time against fetch(url).arrayBuffer() of the same tensors, uncompressed");
    text("faint", "start", 12.0, 44.0, "256 MiB over loopback, in one run; shorter is better; the mark is the goal");
    text("faint", "middle", x(1.0), bottom + 16.0, "1.0 = plain fetch");
    let Report { browser, cores, load: [before, after], rounds, .. } = report;
    let footer = format!("{browser}, {cores} cores, load {before} to {after}, medians of {rounds} interleaved rounds");
    text("faint", "start", 12.0, bottom + 32.0, &footer);
    for (row, y) in rows.iter().zip(0..).map(|(row, i)| (row, TOP + ROW * f64::from(i))) {
        text("", "end", LEFT - 10.0, y + 19.0, &row.title);
        text("", "start", x(row.value) + 6.0, y + 19.0, &format!("{:.2}", row.value));
    }
    for (row, y) in rows.iter().zip(0..).map(|(row, i)| (row, TOP + ROW * f64::from(i))) {
        let class = row.is_met().map_or("open", |met| if met { "met" } else { "missed" });
        let width = (x(row.value) - LEFT).max(1.0);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"20\" rx=\"2\"/>",
            y + 5.0
        );
        if let Some(goal) = row.goal {
            let at = x(goal);
            let _ = writeln!(svg, "<path class=\"goal\" d=\"M{at:.1} {:.1}v26\"/>", y + 2.0);
        }
    }
    let _ = writeln!(svg, "<path class=\"one\" d=\"M{:.1} {TOP}V{bottom}\"/>\n</svg>", x(1.0));
    svg
}
