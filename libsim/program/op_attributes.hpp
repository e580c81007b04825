#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "libsim/model/model_config.hpp"
#include "libsim/program/tensor.hpp"

/// What an op needs to know besides its operands. Kernels, cost model and fingerprint read these
/// instead of the model's configuration, so that layers of one plan can differ in them.
namespace stagecraft {

/// A batched matrix product C[m, n] (+)= A[m, k] B[k, n], as the executor hands it to BLAS.
struct GemmShape {
  std::int64_t batch = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k]
  bool accumulate = false;   ///< the product is added to C

  constexpr std::int64_t flops() const { return 2 * batch * m * n * k; }
};

/// The dropouts of a model. The site is part of the counter that masks are drawn from.
enum class DropoutSite : std::uint8_t { embedding, attention, attention_output, mlp_output };

/// An op that is described by its operands alone.
struct NoAttributes {};

/// The rows of each group of a grouped product.
using GroupRows = std::vector<std::int64_t>;

/// How the operands of a product are scaled to the range of their type.
enum class Scaling : std::uint8_t { none };

/// C = A B, or C += A B.
struct GemmAttributes {
  GemmShape shape;
  ElementType output = ElementType::f16;  ///< of C
  ElementType a = ElementType::f16;
  ElementType b = ElementType::f16;
  Scaling scaling = Scaling::none;
  /// Of grouped products, for their cost: the rows of A and C, or of weight gradients what the sums
  /// are over. The shape then has their mean, and groups without rows compute nothing. Null if all
  /// have as many; the plan's, valid as long as that exists.
  GroupRows const* rows = nullptr;

  /// The type at whose rate the product runs: the wider one of A and B.
  ElementType operands() const { return element_size(b) > element_size(a) ? b : a; }
  /// Whether groups differ in what their sums are over, and not in the rows of C.
  bool sums_rows() const { return shape.transpose_a; }
  /// Elements of C that are written.
  std::int64_t output_elements() const;
};

struct NormAttributes {
  Norm norm = Norm::layernorm;
  double epsilon = 1e-5;  ///< added to the variance, or to the mean square

  bool subtracts_mean() const { return norm == Norm::layernorm; }
};

/// An RMS norm of heads [s, b, heads, d].
struct HeadsNormAttributes {
  double epsilon = 1e-5;      ///< added to the mean square
  bool across_heads = false;  ///< all heads of a token are normalized together
};

/// A mask depends on an element's index in the whole model's tensor, so every layout draws the
/// same.
struct DropoutAttributes {
  DropoutSite site = DropoutSite::embedding;
  double rate = 0;  ///< 0 <= rate < 1
  /// The number of tensor ranks that the tensor is split over, by rows of the sequence or by heads;
  /// 1 if each rank holds all of it.
  int shards = 1;
};

struct SoftmaxAttributes {
  double scale = 1;           ///< of the scores: 1 / sqrt(head_dim)
  DropoutAttributes dropout;  ///< causal_softmax_dropout only
  std::int64_t matrices = 0;  ///< of scores on this rank: b a/t
  std::int64_t window = 0;    ///< columns of a row up to the diagonal that count; 0: all of them
};

/// What of attention one call computes on a rank that splits sequences with others; see
/// attended_rows().
struct AttentionPart {
  enum class Kind : std::uint8_t {
    whole,            ///< all queries against the keys before them
    ring_step,        ///< all queries against the keys that the rank has in step `index`
    gathered_chunk,   ///< the rank's first or second chunk of queries against the keys of all
    contiguous_step,  ///< as ring_step, on ranks with consecutive rows
  };
  Kind kind = Kind::whole;
  int index = 0;
  int stride = 1;  ///< steps of a ring: consecutive ranks that take part in other rings
};

struct FlashAttributes {
  double scale = 1;           ///< of the scores: 1 / sqrt(head_dim)
  DropoutAttributes dropout;  ///< of the probabilities; masks are drawn, never stored
  std::int64_t window = 0;    ///< keys that a query attends to, its own included; 0: all before
  double softcap = 0;         ///< c: scaled scores x become c tanh(x / c); 0: they do not
  AttentionPart part{};
};

/// Every member of a group sends to the one that comes `by` behind it, around.
struct ShiftAttributes {
  int by = 1;
};

/// Where a token goes that is sent once to each rank and node which has experts of its choice.
struct UniqueTokens {
  std::int64_t experts = 1;
  std::int64_t per_token = 1;
  std::int64_t groups = 1;            ///< of experts, of which a token uses
  std::int64_t groups_per_token = 1;  ///< so many
  /// Into how many parts ranks split the experts; 0: into one for each rank. Each part is that of
  /// equally many ranks, to all of which a token goes.
  std::int64_t parts = 0;
};

/// What an all-to-all costs beyond what its bytes say.
struct ExchangeAttributes {
  bool sends_once = false;  ///< pieces are `tokens`, which every rank has
  UniqueTokens tokens{};
  /// Of these, what reaches the rank that most reach, relative to choices that are all alike.
  double hottest = 1;
};

/// Rows in zigzag order of so many ranks (see SequencePart) become those of the whole in order, or
/// back.
struct RowOrderAttributes {
  int ranks = 1;
  bool to_sequence = true;
};

/// y = cap tanh(scale x / cap).
struct SoftcapAttributes {
  double cap = 1;
  double scale = 1;
};

struct RotaryAttributes {
  double base = 10000;  ///< wavelengths from 2 pi to 2 pi times this
};

struct VocabularyAttributes {
  std::int64_t words = 0;  ///< size of the whole vocabulary, without padding
  double weight = 1;       ///< of this loss in what is trained
};

/// Which tokens an op loads: those of the microbatch, or those that come later in its sequences.
struct TokensAttributes {
  int ahead = 0;  ///< by so many more than the op's own distance
};

/// Whether rows are multiplied by their factors, or by the sigmoids of them.
enum class RowFactor : std::uint8_t { identity, sigmoid };

struct RowScaleAttributes {
  RowFactor factor = RowFactor::identity;
};

struct ActivationAttributes {
  Activation activation = Activation::gelu;
};

class ForcedRouting;

/// Which choices an expert drops if more tokens choose it than it takes: those of lowest
/// probability, or those of the last tokens.
enum class DropBy : std::uint8_t { probabilities, position };

/// How logits [tokens, experts] become choices and probabilities: balanced, whatever they are; as
/// `forced` says; or by the router, if there is a limit or `unlimited` is set.
struct RoutingAttributes {
  RouterScore score = RouterScore::softmax;
  RouterOrder order = RouterOrder::after;
  bool normalise = true;
  double scaling = 1;
  std::int64_t per_token = 1;         ///< k
  std::int64_t groups = 1;            ///< of experts
  std::int64_t groups_per_token = 1;  ///< whose experts a token may choose
  std::int64_t expert_rows = 0;       ///< that each expert takes at most; 0: no limit
  bool pads = true;                   ///< to expert_rows
  DropBy drop = DropBy::probabilities;
  bool unlimited = false;                 ///< the router chooses, and nothing is dropped
  ForcedRouting const* forced = nullptr;  ///< the plan's; valid as long as that exists
  std::int64_t micro = 1;  ///< forced: sequences that rows are of, one after the other
  int shards = 1;          ///< forced: tensor ranks that split the rows of each sequence

  constexpr bool is_by_router() const { return unlimited || expert_rows > 0; }
};

/// What is trained beside the loss of the tokens, so that experts are chosen evenly and logits stay
/// small. With c_e the choices of expert e among N tokens, p_te the score of e for token t as a
/// share of the token's scores, and E experts:
///   balance E / (k N^2) sum_e c_e sum_t p_te + size / n sum_t (log sum_e exp(logit_te))^2
/// where n tokens are those of a microbatch, and N as many times more as replicas count together.
/// Source: Megatron-LM, moe_utils.py: switch_load_balancing_loss_func, z_loss_func (Fedus et al.
/// 2021, arXiv:2101.03961, equation 4; Zoph et al. 2022, arXiv:2202.08906, equation 5).
struct RouterLossAttributes {
  RouterScore score = RouterScore::softmax;
  std::int64_t per_token = 1;  ///< k
  std::int64_t sequences = 1;  ///< whose tokens are counted apart; their losses are averaged
  std::int64_t tokens = 0;     ///< n: of the microbatch on all ranks that share it
  int replicas = 1;            ///< whose choices are counted together: N / n if sequences is 1
  double balance = 0;          ///< coefficient of the loss on choices; 0: there are no counts
  double size = 0;             ///< coefficient of the loss on logits
};

/// Rows in outer x inner chunks: of equal size, or of as many rows as an operand [outer, inner]
/// says, or [inner, outer] if `by_inner` is set.
struct ChunkAttributes {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  bool by_inner = false;
};

struct ScaleAttributes {
  double factor = 1;
};

struct ClipAttributes {
  double largest_norm = 0;  ///< of all gradients together; 0: not clipped
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
struct AdamAttributes {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// A step that is taken unless the norm so far already needs clipping.
struct AdamAheadAttributes {
  AdamAttributes adam;
  ClipAttributes clip;
};

using OpAttributes = std::variant<NoAttributes,
                                  GemmAttributes,
                                  NormAttributes,
                                  HeadsNormAttributes,
                                  DropoutAttributes,
                                  SoftmaxAttributes,
                                  FlashAttributes,
                                  ShiftAttributes,
                                  ExchangeAttributes,
                                  RowOrderAttributes,
                                  SoftcapAttributes,
                                  RotaryAttributes,
                                  VocabularyAttributes,
                                  TokensAttributes,
                                  ActivationAttributes,
                                  RoutingAttributes,
                                  RouterLossAttributes,
                                  RowScaleAttributes,
                                  ChunkAttributes,
                                  ScaleAttributes,
                                  ClipAttributes,
                                  AdamAttributes,
                                  AdamAheadAttributes>;

/// The dropout among an op's attributes, or null.
inline DropoutAttributes const* dropout_of(OpAttributes const& attributes) {
  if (auto const* const dropout = std::get_if<DropoutAttributes>(&attributes)) return dropout;
  if (auto const* const softmax = std::get_if<SoftmaxAttributes>(&attributes)) {
    return &softmax->dropout;
  }
  if (auto const* const flash = std::get_if<FlashAttributes>(&attributes)) return &flash->dropout;
  return nullptr;
}

}  // namespace stagecraft
