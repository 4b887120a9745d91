"""Style of the report's page: in light and dark, on a wide screen, on a phone and on paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--line:#d0d7de;--soft:#f6f8fa;--dim:#57606a;--link:#0550ae;
--good:#1a7f37;--no:#9a6700;--bad:#cf222e;--on:#fff}
@media(prefers-color-scheme:dark){:root{--line:#3d444d;--soft:#1c2128;--dim:#9198a1;--link:#79c0ff;
--good:#3fb950;--no:#d29922;--bad:#ff7b72;--on:#0d1117}body{background:#0d1117;color:#e6edf3}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0}main{max-width:64rem;margin:auto;padding:1rem}
h1{margin:.5rem 0;line-height:1.2;overflow-wrap:anywhere}h2{margin:2rem 0 .5rem}h3{font-size:1em;margin:.8rem 0 .2rem}
a{color:var(--link)}a:focus-visible,summary:focus-visible,pre:focus-visible{outline:2px solid var(--link)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt,small,.took{color:var(--dim)}
dd{margin:0}dd,code,summary,li{overflow-wrap:anywhere}
.timeline,.refusals{list-style:none;margin:0;padding:0}
.timeline{border:1px solid var(--line);border-radius:6px;padding:.5rem .8rem}
.timeline li{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,3fr) 6rem;gap:.8rem;align-items:center;
padding:.15rem 0}
.timeline a{color:inherit;text-decoration:none;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;font-size:.9em}
.timeline a:hover,.timeline a:focus-visible{text-decoration:underline}
.timeline svg{width:100%;height:.8rem;background:var(--soft);border-radius:3px}
.timeline .took{text-align:right;font-size:.9em}
.timeline .scale p{color:var(--dim);font-size:.8em;grid-column:2;display:flex;justify-content:space-between;margin:0}
.refusals li{border-left:4px solid var(--line);padding:.2rem .8rem;margin:.8rem 0}
.refusals p{margin:.3rem 0}.why{white-space:pre-wrap}
.warning{border:1px solid var(--bad);border-left-width:6px;border-radius:6px;padding:.5rem .8rem}
details{border-bottom:1px solid var(--line);padding:.5rem 0}details:target{background:var(--soft)}
summary{cursor:pointer}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:.6rem;border-radius:6px;margin:.2rem 0;
max-height:30rem;overflow:auto}
.badge{display:inline-block;border-radius:4px;padding:0 .4rem;color:var(--on);background:var(--bad);font-size:.85em}
rect{fill:var(--bad)}
.badge.success{background:var(--good)}rect.success{fill:var(--good)}
.badge.denied,.badge.expired{background:var(--no)}rect.denied,rect.expired{fill:var(--no)}
@media(max-width:40rem){.timeline li{grid-template-columns:minmax(0,1fr) auto;gap:.1rem .6rem;padding:.3rem 0}
.timeline svg,.timeline .scale p{grid-column:1/-1;grid-row:2}
dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media print{main{max-width:none}pre{max-height:none}}
"""
