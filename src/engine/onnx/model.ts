/**
 * ONNX messages (github.com/onnx/onnx, onnx.proto): only those parts that the emitter needs. Field numbers
 * are from onnx.proto.
 */
import type { Dim } from '../dims.ts';
import { bytes, type Field, float, int, message } from './protobuf.ts';

/** TensorProto.DataType. */
export const DATA_TYPE = { f32: 1, i32: 6, i64: 7, bool: 9, f16: 10, bf16: 16 } as const;
export type DataType = keyof typeof DATA_TYPE;

/** ONNX operator set of the default domain. */
const OPSET = 23;
const IR_VERSION = 10;

export type Attribute =
  | { kind: 'int'; value: number }
  | { kind: 'float'; value: number }
  | { kind: 'ints'; value: number[] }
  | { kind: 'string'; value: string };

export interface OnnxNode {
  op: string;
  /** '' is ONNX itself, 'com.microsoft' onnxruntime's own operators. */
  domain: string;
  inputs: string[];
  outputs: string[];
  attributes: Record<string, Attribute>;
}

export type Initializer =
  | { name: string; type: 'f32' | 'i32' | 'i64'; shape: readonly number[]; data: readonly number[] }
  | {
      name: string;
      type: 'f32' | 'f16' | 'bf16';
      shape: readonly number[];
      /** File name within the external data folder, byte offset, byte length. */
      external: { file: string; offset: number; length: number };
    };

export interface ValueInfo {
  name: string;
  type: DataType;
  shape: readonly Dim[];
}

export interface OnnxGraph {
  nodes: OnnxNode[];
  initializers: Initializer[];
  inputs: ValueInfo[];
  outputs: ValueInfo[];
  /** Shapes of values in between, in the symbols of the inputs: lets buffers of one size be reused. */
  values: ValueInfo[];
}

// AttributeProto.AttributeType
const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, ints: 7 } as const;

function attributeProto(name: string, attribute: Attribute): Uint8Array {
  const value: Field[] = (() => {
    switch (attribute.kind) {
      case 'float':
        return [float(2, attribute.value)];
      case 'int':
        return [int(3, attribute.value)];
      case 'string':
        return [bytes(4, attribute.value)];
      case 'ints':
        return attribute.value.map((v) => int(8, v));
    }
  })();
  return message(bytes(1, name), value, int(20, ATTRIBUTE_TYPE[attribute.kind]));
}

function nodeProto(node: OnnxNode): Uint8Array {
  return message(
    node.inputs.map((name) => bytes(1, name)),
    node.outputs.map((name) => bytes(2, name)),
    bytes(4, node.op),
    Object.entries(node.attributes).map(([name, value]) => bytes(5, attributeProto(name, value))),
    node.domain ? [bytes(7, node.domain)] : [],
  );
}

function rawData(type: 'f32' | 'i32' | 'i64', data: readonly number[]): Uint8Array {
  switch (type) {
    case 'f32':
      return new Uint8Array(Float32Array.from(data).buffer);
    case 'i32':
      return new Uint8Array(Int32Array.from(data).buffer);
    case 'i64':
      return new Uint8Array(BigInt64Array.from(data, (v) => BigInt(v)).buffer);
  }
}

function tensorProto(tensor: Initializer): Uint8Array {
  const head = [...tensor.shape.map((d) => int(1, d)), int(2, DATA_TYPE[tensor.type]), bytes(8, tensor.name)];
  if ('data' in tensor) return message(head, bytes(9, rawData(tensor.type, tensor.data)));
  const entry = (key: string, value: string): Field => bytes(13, message(bytes(1, key), bytes(2, value)));
  const { file, offset, length } = tensor.external;
  // data_location 1: EXTERNAL
  return message(
    head,
    entry('location', file),
    entry('offset', String(offset)),
    entry('length', String(length)),
    int(14, 1),
  );
}

function valueInfoProto(value: ValueInfo): Uint8Array {
  const dims = value.shape.map((d) => bytes(1, typeof d === 'number' ? int(1, d) : bytes(2, d)));
  const tensor = message(int(1, DATA_TYPE[value.type]), bytes(2, message(dims)));
  return message(bytes(1, value.name), bytes(2, bytes(1, tensor)));
}

/** The bytes of a ModelProto. */
export function modelProto(graph: OnnxGraph): Uint8Array {
  const graphProto = message(
    graph.nodes.map((n) => bytes(1, nodeProto(n))),
    bytes(2, 'lexpo'),
    graph.initializers.map((t) => bytes(5, tensorProto(t))),
    graph.inputs.map((v) => bytes(11, valueInfoProto(v))),
    graph.outputs.map((v) => bytes(12, valueInfoProto(v))),
    graph.values.map((v) => bytes(13, valueInfoProto(v))),
  );
  const opset = (domain: string, version: number): Field =>
    bytes(8, message(bytes(1, domain), int(2, version)));
  return message(
    int(1, IR_VERSION),
    bytes(2, 'lexpo'),
    bytes(7, graphProto),
    opset('', OPSET),
    opset('com.microsoft', 1),
  );
}
