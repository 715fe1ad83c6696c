/** Plain records that cross the engine's border. */

/** A dense row-major f32 tensor. */
export interface Tensor {
  shape: number[];
  data: Float32Array;
}

/** Named tensors, in a fixed order (insertion order is the order of every loop over them). */
export type TensorMap = Map<string, Tensor>;

/**
 * LoRA (Hu et al. 2021, arXiv 2106.09685): y = W x + (alpha / r) · B A x. `rslora` scales by alpha / √r
 * instead (arXiv 2312.03732).
 */
export interface LoraSpec {
  r: number;
  alpha: number;
  rslora: boolean;
  /** Module names within a layer, such as `q_proj`. */
  targets: string[];
}

/**
 * An adapter in memory. Tensor names are PEFT's:
 * `base_model.model.model.layers.N.self_attn.q_proj.lora_A.weight` with A `[r, in]`, B `[out, r]`.
 */
export interface Adapter {
  spec: LoraSpec;
  tensors: TensorMap;
}

/**
 * Token trees, packed: `trees × length` positions, row-major, padded at the right of each tree.
 *
 * A tree is laid out depth-first, so the subtree of position i is the range [i, subtreeEnd[i]), and
 * position i attends to j exactly when j ≤ i < subtreeEnd[j]. A plain sample is the special case of a
 * chain. Padding has id 0, position 0 and subtreeEnd = its own index + 1.
 */
export interface TreeBatch {
  trees: number;
  length: number;
  /** Token ids `[trees × length]`. */
  ids: Int32Array;
  /** Depth in the tree `[trees × length]`: the rotary position. */
  positions: Int32Array;
  /** One past the last position of the subtree, within the tree `[trees × length]`. */
  subtreeEnd: Int32Array;
  /** Rows: `hiddenIndex` (tree × length + position) whose hidden state predicts `targetId`. `[rows]` each. */
  hiddenIndex: Int32Array;
  targetId: Int32Array;
}

/** Per row, under the current weights: log-probability of the target (nats) and entropy (nats). */
export interface RowValues {
  logprobs: Float32Array;
  entropies: Float32Array;
}
