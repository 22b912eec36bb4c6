"""The style sheet of the page, with colours for light and for dark."""

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --soft: #57606a; --rule: #d0d7de; --panel: #f6f8fa;
  --used: #7fb2e5; --over: #d9730d; --line: #1b1f24; --good: #116329; --bad: #a40e26; --heat: 217, 115, 13;
  --c0: #2f6fb5; --c1: #d9730d; --c2: #2e8b57; --c3: #9a4fb5; --c4: #b59500; --c5: #c2386b; --c6: #2a9aa8;
  --c7: #6e7781; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0f1318; --ink: #e6edf3; --soft: #9aa4af; --rule: #303842; --panel: #171d24;
    --used: #2f6496; --over: #e58a35; --line: #e6edf3; --good: #56d364; --bad: #ff7b72; --heat: 229, 138, 53;
    --c0: #6aa9ea; --c1: #e58a35; --c2: #5cc28a; --c3: #c58be0; --c4: #d8bd3a; --c5: #ee7aa4; --c6: #5fc6d3;
    --c7: #9aa4af; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 86rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.6rem; border-bottom: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.4rem; }
p { color: var(--soft); margin: 0.4rem 0; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 0.6rem; margin: 0; }
.tiles div { background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; padding: 0.5rem 0.7rem; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 0.8rem; }
figure { margin: 0; min-width: 0; max-width: 60rem; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 6px; padding: 0.6rem; }
figcaption { font-weight: 600; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 12px; }
.level { text-anchor: end; }
.tick { text-anchor: middle; }
.used { fill: var(--used); }
.over { fill: var(--over); }
.line { stroke: var(--line); stroke-dasharray: 5 4; fill: none; }
.axis { stroke: var(--rule); fill: none; }
.spot { fill: transparent; }
.spot:hover { fill: var(--ink); fill-opacity: 0.12; }
.bar:hover { opacity: 0.75; }
.c0 { fill: var(--c0); background: var(--c0); } .c1 { fill: var(--c1); background: var(--c1); }
.c2 { fill: var(--c2); background: var(--c2); } .c3 { fill: var(--c3); background: var(--c3); }
.c4 { fill: var(--c4); background: var(--c4); } .c5 { fill: var(--c5); background: var(--c5); }
.c6 { fill: var(--c6); background: var(--c6); } .c7 { fill: var(--c7); background: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none; margin: 0.3rem 0; padding: 0;
  color: var(--soft); }
.key { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; border-radius: 2px; }
.key.used { background: var(--used); } .key.over { background: var(--over); }
.key.dash { height: 0; width: 1.6em; border-top: 2px dashed var(--line); border-radius: 0; vertical-align: middle; }
details { margin-top: 0.3rem; }
summary { color: var(--soft); cursor: pointer; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5rem 0; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { padding: 0.15rem 0.7rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th[scope=row] { text-align: left; color: var(--ink); font-weight: 400; }
.name { text-align: left; }
.better { color: var(--good); }
.worse { color: var(--bad); }
.matrix td { text-align: center; min-width: 3rem; }
.s1 { background: rgba(var(--heat), 0.12); } .s2 { background: rgba(var(--heat), 0.24); }
.s3 { background: rgba(var(--heat), 0.36); } .s4 { background: rgba(var(--heat), 0.48); }
.s5 { background: rgba(var(--heat), 0.6); }
@media print { details { display: none; } figure { break-inside: avoid; } }
"""
