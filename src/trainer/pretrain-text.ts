/** One pretraining sample: `ids` with the end token, loss on the targets `ids[lossFrom …]`. */
export interface PretrainSample {
  ids: number[];
  lossFrom: number;
}
