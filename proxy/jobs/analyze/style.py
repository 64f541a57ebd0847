"""The page's style sheet: two colours and greys, light and dark by the reader's own setting, black on white on paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --paper: #ffffff; --panel: #f4f6f9; --rule: #d9dfe7;
  --one: #2563a8; --two: #c2571a; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --paper: #14181f; --panel: #1c222c;
  --rule: #333d4b; --one: #6ea8e6; --two: #f0925a; --warn: #e0b458; } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --panel: #fff; --rule: #bbb; } section { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .3rem; }
p, ul { margin: .4rem 0; max-width: 46rem; }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1.4rem 0; padding: 0; }
.tiles div { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: .8rem 1rem; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.75rem; font-weight: 650; line-height: 1.25; }
.tiles dd small { display: block; color: var(--soft); font-size: .8rem; font-weight: 400; }
.warn { border-left: 4px solid var(--warn); background: var(--panel); padding: .5rem .9rem; border-radius: 0 6px 6px 0; }
.pair { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.6rem; align-items: start; margin-top: .8rem; }
@media (max-width: 50rem) { .pair { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; }
.wide { overflow-x: auto; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); }
svg .label, svg .value { text-anchor: middle; }
svg .value { fill: var(--ink); font-weight: 600; }
svg .end { text-anchor: end; }
svg .axis { stroke: var(--soft); }
svg .grid { stroke: var(--rule); }
svg .mark { stroke: var(--ink); stroke-dasharray: 4 3; }
svg .fill1, .key1 { fill: var(--one); color: var(--one); }
svg .fill2, .key2 { fill: var(--two); color: var(--two); }
svg .line1 { stroke: var(--one); fill: none; stroke-width: 2.5; }
svg .line2 { stroke: var(--two); fill: none; stroke-width: 2.5; stroke-dasharray: 7 3; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; font-variant-numeric: tabular-nums;
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; border-bottom-color: var(--soft); }
th[scope=row], .left { text-align: left; font-weight: 400; }
tr.chosen > * { font-weight: 700; background: var(--panel); }
.name { max-width: 14rem; overflow-wrap: anywhere; }
.heat td { background: color-mix(in srgb, var(--one) calc(var(--share) * 55%), transparent); }
.family { border: 1px solid var(--rule); border-radius: 8px; margin: .9rem 0; padding: .2rem .4rem .4rem; }
.family table { table-layout: fixed; }
.family td, .family th { overflow-wrap: anywhere; }
.family tr:last-child > * { border-bottom: 0; }
.family .figure { width: 6.5rem; } .family .id { width: 9rem; } .family .source { width: 10rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .8rem; }
"""
