// Runs program images of sparsegate by its engine in WebAssembly.
const TYPES = [
  { name: "float32", array: Float32Array, width: 4 },
  { name: "int64", array: BigInt64Array, width: 8 },
  { name: "bool", array: Uint8Array, width: 1 },
];
const LINE = 64; // bytes; memory of kernels begins at a whole line
const PAGE = 65536; // bytes by which the memory of WebAssembly grows

const wholeLines = (bytes) => Math.ceil(bytes / LINE) * LINE;
const bytesOf = (data) =>
  ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);

// The engine's module out of bytes, an answer of fetch, or the file next to this one.
const compiled = async (engine) => {
  if (engine instanceof WebAssembly.Module) return engine;
  if (typeof Response !== "undefined" && engine instanceof Response)
    return WebAssembly.compile(await engine.arrayBuffer());
  return WebAssembly.compile(bytesOf(engine ?? (await fileNextTo())));
};

const fileNextTo = async () => {
  const url = new URL("./sparsegate.wasm", import.meta.url);
  if (url.protocol !== "file:") return (await fetch(url)).arrayBuffer();
  const { readFile } = await import("node:fs/promises");
  return readFile(url);
};

// A network that is ready to run.
export class Network {
  static async load(image, engine) {
    const module = await compiled(engine);
    return new Network(await WebAssembly.instantiate(module, {}), bytesOf(image));
  }

  constructor(instance, image) {
    this.wasm = instance.exports;
    this.end = wholeLines(this.wasm.__heap_base.value);
    const at = this.take(image.length);
    new Uint8Array(this.wasm.memory.buffer).set(image, at);
    const size = BigInt(image.length);
    const roomSize = this.checked(this.wasm.sg_image_room(at, size));
    this.image = this.take(roomSize);
    this.checked(-this.wasm.sg_image_load(at, size, this.image, BigInt(roomSize)));
    this.inputs = this.signatures(0n);
    this.outputs = this.signatures(1n);
    this.working = this.take(this.checked(this.wasm.sg_image_memory(this.image, 1n)));
    this.given = this.inputs.map((one) => this.room(one));
    this.made = this.outputs.map((one) => this.room(one));
    this.pointers = [this.given, this.made].map((places) => this.pointersTo(places));
  }

  // Takes zeroed memory from the end; returns where it begins.
  take(bytes) {
    const begin = this.end;
    this.end = wholeLines(begin + Math.max(bytes, 1));
    const missing = this.end - this.wasm.memory.buffer.byteLength;
    if (missing > 0) {
      try {
        this.wasm.memory.grow(Math.ceil(missing / PAGE));
      } catch {
        throw new Error(`the network needs ${this.end} bytes of memory, more than this browser gives`);
      }
    }
    return begin;
  }

  // A count of the engine as a number; negative ones are errors.
  checked(count) {
    if (count < 0n) throw new Error(this.text(this.wasm.sg_image_error(-count)));
    return Number(count);
  }

  text(at) {
    const bytes = new Uint8Array(this.wasm.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  signatures(outputs) {
    const count = Number(this.wasm.sg_image_num(this.image, outputs));
    return Array.from({ length: count }, (_, index) => {
      const at = this.wasm.sg_image_tensor(this.image, outputs, BigInt(index));
      const view = new DataView(this.wasm.memory.buffer, at, 128);
      const shape = Array.from({ length: view.getInt32(4, true) }, (_, dim) =>
        Number(view.getBigInt64(8 + 8 * dim, true)),
      );
      return Object.freeze({ name: this.text(at + 80), type: TYPES[view.getInt32(0, true)].name, shape });
    });
  }

  // Memory of a tensor.
  room(signature) {
    const type = TYPES.find((one) => one.name === signature.type);
    const count = signature.shape.reduce((all, size) => all * size, 1);
    return { at: this.take(count * type.width), count, array: type.array };
  }

  pointersTo(places) {
    const at = this.take(4 * places.length);
    new Uint32Array(this.wasm.memory.buffer, at, places.length).set(places.map((one) => one.at));
    return at;
  }

  view(place) {
    return new place.array(this.wasm.memory.buffer, place.at, place.count);
  }

  // Computes the outputs by name from the elements of the inputs, by name or in order.
  run(inputs) {
    this.inputs.forEach((one, index) => {
      const place = this.given[index];
      const elements = Array.isArray(inputs) ? inputs[index] : inputs[one.name];
      if (!(elements instanceof place.array) || elements.length !== place.count)
        throw new Error(
          `${one.name} is a ${place.array.name} of ${place.count} elements, shape [${one.shape}], got ` +
            (elements ? `a ${elements.constructor.name} of ${elements.length}` : "nothing"),
        );
      this.view(place).set(elements);
    });
    this.checked(-this.wasm.sg_image_run(this.image, this.working, 1n, ...this.pointers));
    return Object.fromEntries(
      this.outputs.map((one, index) => [one.name, { data: this.view(this.made[index]).slice(), shape: one.shape }]),
    );
  }
}
