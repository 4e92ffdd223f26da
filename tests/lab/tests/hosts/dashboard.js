// Draws Grafana's dashboard with what Prometheus, which serves this page, knows about the last seconds. Returns what
// each query found: panel, query, legend, labels of the series.
async (dashboard, cluster, seconds) => {
  const [width, row, gap] = [1400, 26, 6];
  const colours = ["#56a64b", "#3274d9", "#ff780a", "#a352cc", "#e0b400", "#e02f44", "#0a7cac", "#8f3bb8"];
  const named = { green: "#56a64b", red: "#e02f44", orange: "#ff780a", blue: "#3274d9", transparent: "#e8e8ec" };
  const scale = (value, steps) => {
    let at = 0;
    while (at + 1 < steps.length && Math.abs(value) >= steps[at + 1][0]) at += 1;
    return `${Number((value / steps[at][0]).toPrecision(3))} ${steps[at][1]}`;
  };
  const format = (value, unit) => {
    if (value === undefined) return "No data";
    if (unit === "bytes") return scale(value, [[1, "B"], [1024, "KiB"], [1024 ** 2, "MiB"], [1024 ** 3, "GiB"]]);
    if (unit === "s") return scale(value, [[0.001, "ms"], [1, "s"], [60, "min"], [3600, "h"], [86400, "d"]]);
    return `${Number(value.toPrecision(4))}${unit === "cps" ? " c/s" : ""}`;
  };
  const make = (parent, tag, style, text) => {
    const svg = ["svg", "polyline", "rect"].includes(tag);
    const element = svg
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    element.setAttribute("style", style);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };

  const end = Date.now() / 1000;
  const ask = async (target) => {
    const expr = target.expr.replaceAll("$cluster", cluster).replaceAll("$__rate_interval", "15s");
    const query = new URLSearchParams({ query: expr, start: end - seconds, end, step: 1 });
    const answer = await (await fetch(`/api/v1/query_range?${query}`)).json();
    if (answer.status !== "success") throw new Error(`${expr}: ${answer.error}`);
    return answer.data.result.map(({ metric, values }) => ({
      metric,
      name: (target.legendFormat || "value").replace(/{{(\w+)}}/g, (_, label) => metric[label] ?? ""),
      points: values.map(([time, value]) => [time, Number(value)]),
    }));
  };

  const found = [];
  document.body.replaceChildren();
  document.body.style = "margin:0;background:#f4f5f5;font:12px sans-serif;color:#24292e;position:relative";
  for (const panel of dashboard.panels) {
    const { x, y, w, h } = panel.gridPos;
    const [panelWidth, panelHeight] = [(w * width) / 24 - gap, h * row - gap];
    const place = `position:absolute;left:${(x * width) / 24}px;top:${y * row}px;width:${panelWidth}px`;
    if (panel.type === "row") {
      make(document.body, "div", `${place};font-weight:bold;font-size:14px;padding:4px`, panel.title);
      continue;
    }
    const look = `background:#fff;border:1px solid #d8d9da;box-sizing:border-box;overflow:hidden;padding:4px 8px`;
    const box = make(document.body, "div", `${place};height:${panelHeight}px;${look}`);
    make(box, "div", "font-weight:bold;margin-bottom:4px", panel.title);
    const series = [];
    for (const target of panel.targets) {
      const got = await ask(target);
      found.push({ panel: panel.title, query: target.expr, legend: target.legendFormat, labels: got.map((s) => s.metric) });
      series.push(...got);
    }
    const { unit, mappings = [], thresholds } = panel.fieldConfig.defaults;
    const shown = (value) => mappings[0]?.options[value] ?? { text: format(value, unit) };
    const last = (one) => one.points.at(-1)[1];
    const inner = panelWidth - 20;
    if (series.length === 0) {
      make(box, "div", "color:#888;text-align:center;margin-top:20px", "No data");
    } else if (panel.type === "stat") {
      for (const one of series) {
        const step = thresholds.steps.filter((step) => step.value === null || last(one) >= step.value).at(-1);
        const { text, color = step.color } = shown(last(one));
        const value = make(box, "span", `font-size:24px;color:${named[color]};margin-right:12px`, text);
        if (series.length > 1) make(value, "span", "font-size:11px;color:#666", ` ${one.name}`);
      }
    } else if (panel.type === "state-timeline") {
      const svg = make(box, "svg", `width:${inner}px;height:${panelHeight - 36}px`);
      const lane = Math.min(24, (panelHeight - 36) / series.length);
      series.forEach((one, index) => {
        for (const [time, value] of one.points) {
          const bar = make(svg, "rect", `fill:${named[shown(value).color] ?? named.green}`);
          bar.setAttribute("x", 150 + ((time - end + seconds) / seconds) * (inner - 150));
          bar.setAttribute("y", index * lane);
          bar.setAttribute("width", (inner - 150) / seconds + 0.5);
          bar.setAttribute("height", lane - 3);
        }
        const at = `position:absolute;left:8px;top:${28 + index * lane}px;width:146px;overflow:hidden;white-space:nowrap`;
        make(box, "span", at, `${one.name}`);
      });
    } else {
      const values = series.flatMap((one) => one.points.map((point) => point[1]));
      const [low, high] = [Math.min(0, ...values), Math.max(...values)];
      const [left, bottom] = [64, panelHeight - 64];
      const svg = make(box, "svg", `width:${inner}px;height:${bottom + 4}px`);
      series.forEach((one, index) => {
        const line = make(svg, "polyline", `fill:none;stroke-width:1.5;stroke:${colours[index % colours.length]}`);
        const point = ([time, value]) => [
          left + ((time - end + seconds) / seconds) * (inner - left),
          2 + (1 - (value - low) / (high - low || 1)) * bottom,
        ];
        line.setAttribute("points", one.points.map(point).join(" "));
      });
      make(box, "span", "position:absolute;left:8px;top:26px;color:#666", format(high, unit));
      make(box, "span", `position:absolute;left:8px;top:${18 + bottom}px;color:#666`, format(low, unit));
      const legend = make(box, "div", "white-space:nowrap");
      series.forEach((one, index) => {
        make(legend, "span", `color:${colours[index % colours.length]}`, "━ ");
        make(legend, "span", "margin-right:8px", `${one.name} ${format(last(one), unit)}`);
      });
    }
  }
  return found;
};
