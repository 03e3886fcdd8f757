// Reads the bytes of a .sparse.safetensors file (docs/formats): tensors of single precision, by name.
const ARRAYS = { F32: Float32Array, U8: Uint8Array, U16: Uint16Array, U32: Uint32Array };

function decode(bytes) {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const entries = JSON.parse(header.__metadata__.tensors);
  delete header.__metadata__;
  const part = (name) => {
    if (!header[name]) return new Uint8Array(0);
    const [begin, end] = header[name].data_offsets;
    return new ARRAYS[header[name].dtype](bytes.slice(8 + length + begin, 8 + length + end).buffer);
  };
  const tensors = {};
  for (const name of Object.keys(header)) {
    if (!(name.replace(/:[a-z]+$/, "") in entries)) tensors[name] = { shape: header[name].shape, values: part(name) };
  }
  for (const [name, entry] of Object.entries(entries)) {
    if (!entry.same) tensors[name] = { shape: entry.shape, values: scatter(entry, (each) => part(`${name}:${each}`)) };
  }
  for (const [name, entry] of Object.entries(entries)) if (entry.same) tensors[name] = tensors[entry.same];
  return tensors;
}

function scatter(entry, part) {
  const out = new Float32Array(entry.shape.reduce((one, other) => one * other, 1));
  const values = part("values");
  let next = 0;
  for (const place of PLACES[entry.format](entry, part, out.length)) out[place] = values[next++];
  return out;
}

const PLACES = {
  *bitmap(entry, part, total) {
    const mask = part("mask");
    for (let place = 0; place < total; place++) if (bitOf(mask, place)) yield place;
  },
  *rows(entry, part, total) {
    const [counts, columns] = [part("counts"), part("columns")];
    let next = 0;
    for (let row = 0; row < counts.length; row++) {
      for (let count = 0; count < counts[row]; count++) yield row * (total / counts.length) + columns[next++];
    }
  },
  *gaps(entry, part, total) {
    const marked = riceCoded(part("quotients"), part("remainders"), entry.rice);
    if (entry.of === "kept") return yield* marked;
    const removed = new Set(marked);
    for (let place = 0; place < total; place++) if (!removed.has(place)) yield place;
  },
};

function riceCoded(quotients, remainders, rice) {
  const ends = [];
  for (let bit = 0; bit < 8 * quotients.length; bit++) if (bitOf(quotients, bit)) ends.push(bit);
  const plane = remainders.length / Math.max(1, rice);
  let place = -1;
  return ends.map((end, index) => {
    let gap = (end - (index ? ends[index - 1] : -1) - 1) * 2 ** rice;
    for (let bit = 0; bit < rice; bit++) gap += bitOf(remainders.subarray(bit * plane, (bit + 1) * plane), index) << bit;
    place += gap + 1;
    return place;
  });
}
