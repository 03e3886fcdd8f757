/** The type of a tensor's elements. */
export type ElementType = "float32" | "int64" | "bool";

/** An input or output of a network. */
export interface Signature {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
}

/** Elements in row-major order: the last dimension changes fastest. */
export type Elements = Float32Array | BigInt64Array | Uint8Array;

/** An output of a network. */
export interface Tensor {
  readonly data: Elements;
  readonly shape: readonly number[];
}

/** The compiled engine, its bytes, or a response of `fetch` with its bytes. */
export type Engine = WebAssembly.Module | ArrayBuffer | ArrayBufferView | Response;

/** A network that is ready to run. */
export class Network {
  private constructor();

  /**
   * Loads a program image, which `sparsegate.runtime.save_image` writes in Python.
   *
   * @param image - the bytes of the image; they are copied
   * @param engine - the engine; by default `sparsegate.wasm` from the folder of this module
   * @throws Error - the bytes are not an image, or the image is damaged or of a newer version
   */
  static load(image: ArrayBuffer | ArrayBufferView, engine?: Engine): Promise<Network>;

  readonly inputs: readonly Signature[];
  readonly outputs: readonly Signature[];

  /**
   * Computes the outputs, by name.
   *
   * @param inputs - the elements of every input, by name, or in order
   * @throws Error - an input is missing, has another type or length, or has an index outside of its table
   */
  run(inputs: Readonly<Record<string, Elements>> | readonly Elements[]): Record<string, Tensor>;
}
