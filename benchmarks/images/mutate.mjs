// Damages program images, signs them again, loads and runs them in WebAssembly: node mutate.mjs SEED SECONDS IMAGE...
//
// Prints how often each error came, and "ran" for images that ran, as JSON. What is not an Error in words is a fault.
import { readFileSync } from "node:fs";
import { Network } from "../../packages/library/sparsegate/web/npm/index.js";

const [seed, seconds, ...paths] = process.argv.slice(2);
const engine = await WebAssembly.compile(
  readFileSync(new URL("../../packages/library/sparsegate/web/npm/sparsegate.wasm", import.meta.url)),
);
const ODD = [0n, 1n, -1n, 2n, 16n, 127n, 512n, 2n ** 31n, 2n ** 40n, 2n ** 40n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];
const MOST = 2 ** 26; // bytes of memory that an image is allowed to ask for here
const MOST_ARENA = 2 ** 22;

let state = Number(seed) >>> 0;
const draw = (below) => {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
};

const TABLE = Uint32Array.from({ length: 256 }, (_, i) => {
  for (let bit = 0; bit < 8; bit++) i = i & 1 ? 0xedb88320 ^ (i >>> 1) : i >>> 1;
  return i;
});
const crc = (bytes) => {
  let sum = ~0;
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
};

const files = paths.map((path) => new Uint8Array(readFileSync(path)));
const headOf = (file) => {
  const view = new DataView(file.buffer, file.byteOffset);
  const [ins, outs, buffers, operations, steps, structures] = [48, 56, 64, 72, 80, 88].map((at) =>
    Number(view.getBigInt64(at, true)),
  );
  return Math.min(file.length, 96 + (ins + outs) * 128 + buffers * 32 + operations * 8 + steps * 24 + structures);
};

const damaged = (file) => {
  const bytes = file.slice(0, draw(50) ? file.length : Math.floor(draw(file.length) / 8) * 8);
  if (bytes.length < 96) return bytes;
  const view = new DataView(bytes.buffer);
  const changes = bytes.length === file.length ? 1 + (draw(3) ? 0 : draw(4)) : 0;
  for (let change = 0; change < changes; change++) {
    const part = draw(4) ? headOf(file) : file.length;
    const at = Math.floor((16 + draw(part - 24)) / 8) * 8;
    const number = view.getBigInt64(at, true);
    const kind = draw(5);
    if (kind === 0) bytes[at + draw(8)] ^= 1 << draw(8);
    else if (kind === 1) view.setBigInt64(at, ODD[draw(ODD.length)], true);
    else if (kind === 2) view.setBigInt64(at, BigInt.asIntN(64, number + BigInt(draw(9) - 4)), true);
    else if (kind === 3) view.setBigInt64(at, view.getBigInt64(Math.floor(draw(part - 8) / 8) * 8, true), true);
    else bytes[16 + draw(part - 16)] = draw(256);
  }
  if (draw(33)) {
    view.setBigInt64(16, BigInt(bytes.length), true);
    view.setUint32(12, crc(bytes.subarray(16)), true);
  }
  return bytes;
};

const tried = async (bytes) => {
  if (bytes.length >= 96) {
    const arena = new DataView(bytes.buffer).getBigInt64(32, true);
    if (arena > MOST_ARENA && arena < 2 ** 30) return "too large to try";
  }
  try {
    const network = await Network.load(bytes, engine);
    if (network.end > MOST) return "too large to try";
    const given = network.given.map((place) => new place.array(place.count));
    network.run(given);
    return "ran";
  } catch (error) {
    if (!(error instanceof Error) || error.constructor !== Error || !error.message) return `FAULT: ${error}`;
    return error.message.replace(/\d+/g, "#");
  }
};

const counts = {};
const end = Date.now() + 1000 * Number(seconds);
let number = 0;
for (; Date.now() < end; number++) {
  const outcome = await tried(damaged(files[draw(files.length)]));
  counts[outcome] = (counts[outcome] ?? 0) + 1;
}
console.log(JSON.stringify({ tried: number, outcomes: counts }));
