/** Our settings of a policy update in the words of TRL's GRPOConfig. */
import { UserError } from '../../src/base/errors.ts';
import type { LossConfig } from '../../src/trainer/loss.ts';
import type { OptimizerConfig } from '../../src/trainer/optimizer.ts';

export interface UpdateSettings {
  loss: LossConfig;
  optimizer: OptimizerConfig;
  temperature: number;
  epochs: number;
  learningRate: number;
}

/**
 * Fields of GRPOConfig under which GRPOTrainer computes the same update, and `use_vllm`, by which it corrects
 * for the sampler. UserError for what it has no words for.
 *
 * Three things differ. A token that the correction masks leaves our denominators and the KL term too, in TRL
 * it stays there. TRL averages the entropy bonus over micro-batches, we over tokens. And TRL multiplies the KL
 * term by the differentiable ratio unless told otherwise; the KL of the GRPO paper, and ours, is without it.
 */
export function trlConfig(settings: UpdateSettings): Record<string, unknown> {
  const { loss, optimizer, temperature, epochs, learningRate } = settings;
  const { kind, aggregation, importance, kl } = loss;
  const refuse = (what: string): never => {
    throw new UserError(`${what}: TRL's GRPOTrainer has no such loss`, 'loss');
  };
  if (kind === 'reinforce') refuse('reinforce');
  if (kl.coef > 0 && kl.estimator !== 'k3') refuse(`KL estimator ${kl.estimator}`);
  if (kind === 'cispo' && aggregation !== 'token') refuse(`cispo with aggregation ${aggregation}`);
  if (kind === 'gspo' && aggregation !== 'sequence') refuse(`gspo with aggregation ${aggregation}`);
  const lossType = { token: 'dapo', sequence: 'grpo', constant: 'dr_grpo' }[aggregation];
  return {
    loss_type: kind === 'cispo' ? 'cispo' : lossType,
    importance_sampling_level: kind === 'gspo' ? 'sequence' : 'token',
    epsilon: loss.clipLow,
    // TRL's bound of CISPO is the ratio itself.
    epsilon_high: kind === 'cispo' ? 1 + loss.clipHigh : loss.clipHigh,
    max_completion_length: loss.constantLength,
    beta: kl.coef,
    use_bias_correction_kl: false,
    entropy_coef: loss.entropy,
    use_vllm: importance.mode !== 'none',
    ...(importance.mode === 'none'
      ? {}
      : {
          vllm_importance_sampling_mode: `${importance.level}_${importance.mode}`,
          vllm_importance_sampling_clip_max: importance.cap,
        }),
    num_iterations: epochs,
    temperature,
    learning_rate: learningRate,
    adam_beta1: optimizer.betas[0],
    adam_beta2: optimizer.betas[1],
    adam_epsilon: optimizer.eps,
    weight_decay: optimizer.weightDecay,
    max_grad_norm: optimizer.clipNorm,
  };
}
