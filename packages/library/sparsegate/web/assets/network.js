// A chain of layers that skips every removed weight. A value is { shape: [channels, height, width], data }.
function buildNetwork(about) {
  const tensors = decode(fromBase64(about.file));
  const layers = about.layers.map((layer, place) => ({
    ...layer,
    weight: tensors[`${place}.weight`],
    bias: tensors[`${place}.bias`]?.values,
  }));
  layers.forEach((layer) => layer.weight && (layer.live = liveWeights(layer)));
  return {
    about,
    layers,
    normalise: (pixels) => Float64Array.from(pixels, (each) => (each - about.mean) / about.spread),
    run(image) {
      const seen = [{ shape: about.image, data: image }];
      for (const layer of layers) seen.push(RUN[layer.kind](layer, seen[seen.length - 1]));
      return seen;
    },
  };
}

// For every unit its surviving weights: [weight, input channel or feature, row, column].
function liveWeights({ kind, weight, groups }) {
  const [units, inputs, height = 1, width = 1] = weight.shape;
  const live = Array.from({ length: units }, () => []);
  weight.values.forEach((value, place) => {
    if (value === 0) return;
    const unit = Math.floor(place / (inputs * height * width));
    const rest = place % (inputs * height * width);
    const first = kind === "conv" ? Math.floor(unit / (units / groups)) * inputs : 0;
    const inside = rest % (height * width);
    live[unit].push([value, first + Math.floor(rest / (height * width)), Math.floor(inside / width), inside % width]);
  });
  return live;
}

const rectified = (layer, data) => (layer.relu ? data.map((each) => Math.max(0, each)) : data);
const extent = (size, kernel, stride, padding, dilation) =>
  Math.floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1;

const RUN = {
  linear(layer, { data }) {
    const sums = Float64Array.from(layer.bias);
    layer.live.forEach((weights, unit) => weights.forEach(([value, from]) => (sums[unit] += value * data[from])));
    return { shape: [sums.length, 1, 1], data: rectified(layer, sums) };
  },

  conv(layer, value) {
    const [, high, wide] = value.shape;
    const [down, across] = [0, 1].map((axis) =>
      extent(value.shape[axis + 1], layer.weight.shape[axis + 2], layer.stride[axis], layer.padding[axis], layer.dilation[axis]));
    const out = new Float64Array(layer.live.length * down * across);
    layer.live.forEach((weights, unit) => {
      const base = unit * down * across;
      out.fill(layer.bias[unit], base, base + down * across);
      for (const [weight, channel, row, column] of weights) {
        for (let y = 0; y < down; y++) {
          const from = y * layer.stride[0] - layer.padding[0] + row * layer.dilation[0];
          if (from < 0 || from >= high) continue;
          for (let x = 0; x < across; x++) {
            const at = x * layer.stride[1] - layer.padding[1] + column * layer.dilation[1];
            if (at >= 0 && at < wide) out[base + y * across + x] += weight * value.data[(channel * high + from) * wide + at];
          }
        }
      }
    });
    const made = { shape: [layer.live.length, down, across], data: out };
    if (layer.tile === 1) return { ...made, data: rectified(layer, out) };
    const tile = { kernel: [layer.tile, layer.tile], stride: [layer.tile, layer.tile], padding: [0, 0], dilation: [1, 1] };
    return RUN.pool({ ...tile, pool: "max", relu: layer.relu }, made);
  },

  pool(layer, value) {
    const [channels, high, wide] = value.shape;
    const [down, across] = layer.size ??
      [0, 1].map((axis) => extent(value.shape[axis + 1], layer.kernel[axis], layer.stride[axis], layer.padding[axis], layer.dilation[axis]));
    const out = new Float64Array(channels * down * across);
    for (let place = 0; place < out.length; place++) {
      const [channel, y, x] = [Math.floor(place / (down * across)), Math.floor(place / across) % down, place % across];
      out[place] = pooled(layer, value.data.subarray(channel * high * wide, (channel + 1) * high * wide), high, wide, y, x);
    }
    return { shape: [channels, down, across], data: rectified(layer, out) };
  },
};

function pooled(layer, map, high, wide, y, x) {
  let [best, sum, inside, padded] = [-Infinity, 0, 0, 0];
  for (let row = 0; row < layer.kernel[0]; row++) {
    for (let column = 0; column < layer.kernel[1]; column++) {
      const from = y * layer.stride[0] - layer.padding[0] + row * layer.dilation[0];
      const at = x * layer.stride[1] - layer.padding[1] + column * layer.dilation[1];
      padded += from < high + layer.padding[0] && at < wide + layer.padding[1];
      if (from < 0 || at < 0 || from >= high || at >= wide) continue;
      inside += 1;
      sum += map[from * wide + at];
      best = Math.max(best, map[from * wide + at]);
    }
  }
  return layer.pool === "max" ? best : sum / (layer.counts_padding ? padded : inside);
}

function softmax(logits) {
  const top = Math.max(...logits);
  const powers = Array.from(logits, (each) => Math.exp(each - top));
  const sum = powers.reduce((one, other) => one + other, 0);
  return powers.map((each) => each / sum);
}
