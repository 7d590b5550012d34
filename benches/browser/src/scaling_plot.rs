//! A chart of the scaling test: a panel for bytes and one for tensors. Both axes are logarithmic, and dotted lines show
//! linear growth.

use std::fmt::Write;

use crate::plot::STYLE;
use crate::report::Report;
use crate::scaling::{Axis, Point};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 380.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 310.0;

const OWN_STYLE: &str = "
  path { fill: none } .ours { stroke: #2f81c7; stroke-width: 2 } .plain { stroke: #8c959f; stroke-width: 2 }
  .dot-ours { fill: #2f81c7 } .dot-plain { fill: #8c959f }
  .linear { stroke: #8c959f; stroke-dasharray: 1 5 } .frame { stroke: #8c959f }
";

struct Panel<'a> {
    left: f64,
    right: f64,
    points: Vec<&'a Point>,
    /// The range of milliseconds, as exponents of powers of ten.
    low: f64,
    high: f64,
}

pub(super) fn svg(report: &Report) -> String {
    let Report { browser, cores, load: [before, after], rounds, scaling, .. } = report;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Cost against bytes and against tensors\">\n<style>{STYLE}{OWN_STYLE}</style>\n"
    );
    text(&mut svg, "title", "start", 12.0, 24.0, "Cost over three orders of magnitude, in milliseconds");
    let legend = "blue: weightstream; grey: fetch().arrayBuffer() of the same bytes; \
                  dotted: ten times as much for ten times as much";
    text(&mut svg, "faint", "start", 12.0, 44.0, legend);
    let footer = format!("{browser}, {cores} cores, load {before} to {after}, medians of {rounds} interleaved rounds");
    text(&mut svg, "faint", "start", 12.0, HEIGHT - 12.0, &footer);
    let panels = [
        (Axis::Bytes, 60.0, 385.0, "all tensors, raw, by their megabytes"),
        (Axis::Tensors, 460.0, 785.0, "index, open to listed, by tensors"),
    ];
    for (axis, left, right, title) in panels {
        let points: Vec<_> = scaling.iter().filter(|point| point.axis == axis).collect();
        let times = || points.iter().flat_map(|point| [point.ms, point.plain_ms]);
        let low = times().fold(f64::INFINITY, f64::min).log10().floor();
        let high = times().fold(f64::NEG_INFINITY, f64::max).log10().ceil();
        text(&mut svg, "faint", "middle", (left + right) / 2.0, BOTTOM + 36.0, title);
        Panel { left, right, points, low, high }.draw(&mut svg);
    }
    svg + "</svg>\n"
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String) {
        let Panel { left, right, .. } = self;
        let _ = writeln!(svg, "<path class=\"frame\" d=\"M{left} {TOP}V{BOTTOM}H{right}\"/>");
        for exponent in (self.low as i32)..=(self.high as i32) {
            let label = format!("{}", 10_f64.powi(exponent));
            text(svg, "faint", "end", left - 8.0, self.y(10_f64.powi(exponent)) + 4.0, &label);
        }
        for point in &self.points {
            let amount = match point.axis {
                Axis::Bytes => format!("{:.2}", point.amount as f64 / 1e6),
                Axis::Tensors => point.amount.to_string(),
            };
            text(svg, "faint", "middle", self.x(point.amount), BOTTOM + 18.0, &amount);
        }
        self.draw_linear(svg);
        for (class, of) in [("plain", (|point| point.plain_ms) as fn(&Point) -> f64), ("ours", |point| point.ms)] {
            let places = self.points.iter().map(|point| (self.x(point.amount), self.y(of(point))));
            let places: Vec<_> = places.collect();
            let steps: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{}\"/>", steps.join("L"));
            for (x, y) in places {
                let _ = writeln!(svg, "<circle class=\"dot-{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
            }
        }
    }

    /// Draws lines of linear growth, one through each power of ten at the right edge.
    fn draw_linear(&self, svg: &mut String) {
        let amounts = self.points.first().zip(self.points.last());
        let Some((first, last)) = amounts.map(|(first, last)| (first.amount, last.amount)) else { return };
        for exponent in (self.low as i32 + 1)..=(self.high as i32) {
            let most = 10_f64.powi(exponent);
            let least = most * first as f64 / last as f64;
            // Clips the line to the panel.
            let bottom = 10_f64.powf(self.low).max(least);
            let at = last as f64 * bottom / most;
            let (x, y) = (self.place(at), self.y(bottom));
            let _ =
                writeln!(svg, "<path class=\"linear\" d=\"M{x:.1} {y:.1}L{:.1} {:.1}\"/>", self.x(last), self.y(most));
        }
    }

    fn x(&self, amount: u64) -> f64 {
        self.place(amount as f64)
    }

    fn place(&self, amount: f64) -> f64 {
        let ends = self.points.first().zip(self.points.last());
        let (first, last) = ends.map_or((1.0, 10.0), |(first, last)| (first.amount as f64, last.amount as f64));
        let inset = 24.0;
        let (left, right) = (self.left + inset, self.right - inset);
        left + (amount / first).log10() / (last / first).log10() * (right - left)
    }

    fn y(&self, ms: f64) -> f64 {
        BOTTOM - (ms.log10() - self.low) / (self.high - self.low) * (BOTTOM - TOP)
    }
}

fn text(svg: &mut String, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}
