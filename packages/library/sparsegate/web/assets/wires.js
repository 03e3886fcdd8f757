// The picture of a network: columns of units, and its surviving connections, bright where they carry much.
function makeWires(canvas, network) {
  const weighted = network.layers.flatMap((layer, place) => (layer.live ? [place] : []));
  const seen0 = network.run(new Float64Array(network.about.image.reduce((one, other) => one * other)));
  const edges = weighted.map((place) => edgesOf(network.layers[place], seen0[place].shape, place === weighted[0]));
  const columns = unitsOf(edges, seen0, weighted);
  let seen = null;

  const facts = edges.map((each) => each.length).reduce((one, other) => one + other, 0);
  document.getElementById("wires-facts").textContent =
    `${whole.format(columns.slice(1).reduce((sum, each) => sum + each.units.length, 0))} living units, ${whole.format(facts)} lines; ` +
    "the weights of one convolution between two channels are one line.";

  function paint() {
    const wide = canvas.clientWidth || 640;
    const upright = wide < 560;
    const high = upright ? 560 : 460;
    const sharp = window.devicePixelRatio || 1;
    canvas.style.height = `${high}px`;
    [canvas.width, canvas.height] = [wide * sharp, high * sharp];
    const pen = canvas.getContext("2d");
    pen.scale(sharp, sharp);
    const spots = placed(columns, upright ? high : wide, upright ? wide : high, upright);
    edges.forEach((each, place) => paintEdges(pen, each, spots[place], spots[place + 1], seen?.[weighted[place]], upright));
    columns.forEach((column, place) => paintColumn(pen, column, spots[place], seen, place, network.about));
  }
  new ResizeObserver(paint).observe(canvas);
  onRepaint(paint);
  return {
    show(values) {
      seen = values;
      paint();
    },
  };
}

// Connections between units, each with its weights: a channel is one unit, and so is a feature.
function edgesOf(layer, shape, isFirst) {
  const area = layer.kind === "linear" && !isFirst ? shape[1] * shape[2] : 1;
  const edges = new Map();
  layer.live.forEach((weights, to) => weights.forEach(([weight, input]) => {
    const from = Math.floor(input / area);
    const key = `${from}-${to}`;
    if (!edges.has(key)) edges.set(key, { from, to, weights: [] });
    edges.get(key).weights.push([weight, input]);
  }));
  return Object.assign([...edges.values()], { isConv: layer.kind === "conv" });
}

// The columns: the input, then of every layer the units that have a connection; the last layer has all of its own.
function unitsOf(edges, seen, weighted) {
  const input = { units: [...new Set(edges[0].map((edge) => edge.from))], place: 0, shape: seen[0].shape, isImage: true };
  const others = weighted.map((place, index) => {
    const live = new Set(edges[index].map((edge) => edge.to));
    edges[index + 1]?.forEach((edge) => live.add(edge.from));
    const shape = seen[(weighted[index + 1] ?? seen.length - 1)].shape; // after pooling: what the next layer reads
    const all = index === weighted.length - 1 ? [...Array(shape[0]).keys()] : [...live].sort((one, other) => one - other);
    return { units: all, place: weighted[index + 1] ?? seen.length - 1, shape, isLast: index === weighted.length - 1 };
  });
  return [input, ...others];
}

// Where every unit stands: columns along the page, units across, in several ranks where one is too short.
function placed(columns, along, across, upright) {
  const image = upright ? 84 : 104;
  const room = along - image - 24;
  return columns.map((column, index) => {
    const middle = index === 0 ? image / 2 + 4 : image + 10 + (room * (index - 0.35)) / (columns.length - 1);
    const put = (along, across) => (upright ? [across, along] : [along, across]);
    if (column.isImage) return Object.assign(imageSpots(column, put(middle, across / 2), image), { side: image });
    const isMap = column.shape[1] * column.shape[2] > 1;
    const wish = column.isLast ? 26 : isMap ? 30 : 14;
    const ranks = Math.ceil((column.units.length * (isMap ? 20 : 9)) / (across - 8));
    const rows = Math.ceil(column.units.length / ranks);
    const step = Math.min(wish, (across - 8) / rows);
    const spots = new Map(column.units.map((unit, place) => {
      const [rank, row] = [Math.floor(place / rows), place % rows];
      const filled = Math.min(rows, column.units.length - rank * rows);
      return [unit, put(middle + (rank - (ranks - 1) / 2) * step, across / 2 + (row - (filled - 1) / 2) * step)];
    }));
    return Object.assign(spots, { side: Math.min(step - 2, isMap ? 26 : column.isLast ? 18 : 9) });
  });
}

function imageSpots({ units, shape: [channels, high, wide] }, [x, y], size) {
  const isPixels = units.length > channels || Math.max(...units) >= channels;
  return new Map(units.map((unit) => {
    const inside = unit % (high * wide);
    if (!isPixels) return [unit, [x, y]];
    return [unit, [x + ((inside % wide) + 0.5 - wide / 2) * (size / wide), y + (Math.floor(inside / wide) + 0.5 - high / 2) * (size / high)]];
  })).set("image", [x, y]);
}

function carried(edge, isConv, value) {
  if (!value) return 0;
  if (!isConv) return edge.weights.reduce((sum, [weight, input]) => sum + Math.abs(weight * value.data[input]), 0);
  const area = value.shape[1] * value.shape[2];
  const map = value.data.subarray(edge.from * area, (edge.from + 1) * area);
  const mean = map.reduce((sum, each) => sum + Math.abs(each), 0) / area;
  return mean * edge.weights.reduce((sum, [weight]) => sum + Math.abs(weight), 0);
}

function paintEdges(pen, edges, from, to, value, upright) {
  const loads = edges.map((edge) => carried(edge, edges.isConv, value));
  const most = Math.max(...loads, 1e-9);
  const order = edges.map((_, place) => place).sort((one, other) => loads[one] - loads[other]);
  const faint = Math.min(0.5, Math.max(0.07, 30 / edges.length));
  for (const place of order) {
    const [a, b, share] = [from.get(edges[place].from), to.get(edges[place].to), loads[place] / most];
    const lit = value && share > 0.02;
    pen.strokeStyle = colour(lit ? "glow" : "faint");
    pen.globalAlpha = lit ? 0.08 + 0.87 * share ** 1.3 : value ? faint * 0.6 : faint;
    pen.lineWidth = lit ? 0.6 + 1.6 * share : 0.6;
    pen.beginPath();
    pen.moveTo(...a);
    if (upright) pen.bezierCurveTo(a[0], (a[1] + b[1]) / 2, b[0], (a[1] + b[1]) / 2, ...b);
    else pen.bezierCurveTo((a[0] + b[0]) / 2, a[1], (a[0] + b[0]) / 2, b[1], ...b);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function paintColumn(pen, column, spots, seen, index, about) {
  const value = seen?.[column.place];
  const [, high, wide] = column.shape;
  const most = value ? Math.max(...value.data.map(Math.abs), 1e-9) : 1;
  if (column.isImage) return paintImage(pen, spots, value, column.shape, about);
  const chances = column.isLast && value ? softmax(value.data) : null;
  for (const unit of column.units) {
    const [x, y] = spots.get(unit);
    if (high * wide > 1) paintMap(pen, x, y, spots.side, value?.data.subarray(unit * high * wide, (unit + 1) * high * wide), high, wide, most);
    else paintUnit(pen, x, y, spots.side, chances ? chances[unit] : value ? Math.abs(value.data[unit]) / most : 0, column.isLast ? String(unit) : "");
  }
}

function paintUnit(pen, x, y, size, share, name) {
  pen.beginPath();
  pen.arc(x, y, size / 2, 0, 7);
  pen.fillStyle = colour("card");
  pen.fill();
  pen.globalAlpha = Math.min(1, share);
  pen.fillStyle = colour("glow");
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = colour("faint");
  pen.lineWidth = 0.8;
  pen.stroke();
  if (!name) return;
  pen.fillStyle = colour(share > 0.5 ? "on-glow" : "ink");
  pen.font = "600 11px system-ui, sans-serif";
  [pen.textAlign, pen.textBaseline] = ["center", "middle"];
  pen.fillText(name, x, y + 0.5);
}

function paintMap(pen, x, y, size, map, high, wide, most) {
  const [left, top, step] = [x - size / 2, y - size / 2, size / Math.max(high, wide)];
  pen.fillStyle = colour("card");
  pen.fillRect(left, top, size, size);
  pen.fillStyle = colour("glow");
  for (let place = 0; map && place < map.length; place++) {
    pen.globalAlpha = Math.min(1, Math.abs(map[place]) / most);
    if (pen.globalAlpha > 0.03) pen.fillRect(left + (place % wide) * step, top + Math.floor(place / wide) * step, step + 0.3, step + 0.3);
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = colour("faint");
  pen.lineWidth = 0.8;
  pen.strokeRect(left, top, size, size);
}

function paintImage(pen, spots, value, [, high, wide], about) {
  const [x, y] = spots.get("image");
  const pixels = value && value.data.slice(0, high * wide).map((each) => each * about.spread + about.mean);
  pen.save();
  pen.globalAlpha = 0.9;
  pen.fillStyle = colour("card");
  pen.fillRect(x - spots.side / 2, y - spots.side / 2, spots.side, spots.side);
  pen.restore();
  const step = spots.side / Math.max(high, wide);
  pen.fillStyle = colour("ink");
  for (let place = 0; pixels && place < pixels.length; place++) {
    pen.globalAlpha = Math.max(0, Math.min(1, pixels[place] / 255));
    if (pen.globalAlpha > 0.03) pen.fillRect(x - spots.side / 2 + (place % wide) * step, y - spots.side / 2 + Math.floor(place / wide) * step, step + 0.3, step + 0.3);
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = colour("faint");
  pen.strokeRect(x - spots.side / 2, y - spots.side / 2, spots.side, spots.side);
}
