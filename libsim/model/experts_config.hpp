#pragma once

#include <cstdint>

namespace stagecraft {

/// The function that turns a router's logits into scores.
enum class RouterScore : std::uint8_t { softmax, sigmoid };
/// Whether the softmax is over all experts and comes before the choice, or is over the chosen ones.
/// A sigmoid has no such order: each score depends on one logit.
enum class RouterOrder : std::uint8_t { after, before };
/// The loss that keeps the experts' loads even over a microbatch, a sequence or the global batch.
enum class RouterLoss : std::uint8_t { none, auxiliary, sequence_auxiliary, global_auxiliary };
/// Whether probabilities multiply what an expert computes, or what it reads (Llama 4).
enum class ProbabilitiesOn : std::uint8_t { output, input };
/// The type of the router's logits: fp32 (fp64 in fp64 models), or that of the activations.
enum class RouterPrecision : std::uint8_t { fp32, model };

/// How tokens choose experts. Key `model.experts.router`.
struct RouterConfig {
  RouterScore score = RouterScore::softmax;
  RouterOrder order = RouterOrder::after;
  bool normalise = true;  ///< whether the chosen scores are divided by their sum
  double scaling = 1;     ///< factor of the probabilities
  /// Experts form this many groups. A token chooses only among the experts of its best
  /// `groups_per_token` groups.
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  bool bias = false;  ///< a bias per expert that takes part in the choice alone
  RouterPrecision precision = RouterPrecision::fp32;
  RouterLoss loss = RouterLoss::none;
  double loss_coefficient = 0;
  double z_loss = 0;  ///< coefficient of the loss on the size of the logits

  /// Whether choices are counted over all replicas, and over the microbatches of an iteration.
  constexpr bool counts_over_batch() const {
    return loss == RouterLoss::global_auxiliary && loss_coefficient > 0;
  }
  friend bool operator==(RouterConfig const&, RouterConfig const&) = default;
};

/// The experts that take the place of the MLP in sparse layers. Key `model.experts`.
struct ExpertsConfig {
  std::int64_t count = 0;              ///< E: routed experts of a layer
  std::int64_t per_token = 0;          ///< k: experts that each token uses
  std::int64_t ffn_hidden = 0;         ///< width of one routed expert
  std::int64_t shared_ffn_hidden = 0;  ///< width of the experts that every token uses; 0: none
  bool shared_gate = false;            ///< whether a sigmoid gate multiplies their output (Qwen2)
  /// Layer i >= first_dense is sparse if (i - first_dense) mod every = offset.
  std::int64_t first_dense = 0;
  std::int64_t every = 1;
  std::int64_t offset = 0;
  ProbabilitiesOn probabilities_on = ProbabilitiesOn::output;
  bool biases = false;  ///< whether the router and the products of each expert have biases
  RouterConfig router{};
  /// Whether one kernel computes an expert's activation and multiplies it with probabilities. Else
  /// the activation's output is kept, too. No effect with ProbabilitiesOn::input.
  bool fused_weighting = true;
  /// Whether the products of a rank's experts are one kernel, which has a workspace of its own.
  /// Times are those of one kernel in any case.
  bool grouped = true;

  /// Pre: 0 <= layer, the number of a layer in the model.
  constexpr bool is_sparse(std::int64_t layer) const {
    return layer >= first_dense && (layer - first_dense) % every == offset;
  }
  friend bool operator==(ExpertsConfig const&, ExpertsConfig const&) = default;
};

}  // namespace stagecraft
