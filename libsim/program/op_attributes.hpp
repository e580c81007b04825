#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "libsim/model/low_precision.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/program/tensor.hpp"

/// The parameters of an op besides its operands. Kernels, cost model and fingerprint read these
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

/// Which elements of an operand of a product share a scale, so that they fit into the range of
/// their type: those of a tensor; of 1 x 128 or 128 x 128 blocks; of 1 x 32 blocks; of 1 x 16 or
/// 16 x 16 blocks; of a row.
enum class Scaling : std::uint8_t { none, tensor, blocks_of_128, blocks_of_32, blocks_of_16, rows };

/// C = A B, or C += A B.
struct GemmAttributes {
  GemmShape shape;
  ElementType output = ElementType::f16;  ///< type of C
  ElementType a = ElementType::f16;
  ElementType b = ElementType::f16;
  Scaling scaling = Scaling::none;
  /// Grouped products only, for their cost: the rows of A and C in each group or, for weight
  /// gradients, the rows that each group's sums are over. The shape has their mean; groups without
  /// rows compute nothing. Null if all groups have the same number. Owned by the plan.
  GroupRows const* rows = nullptr;

  /// The type at whose rate the product runs: the wider one of A and B.
  ElementType operands() const { return element_bits(b) > element_bits(a) ? b : a; }
  /// Whether groups differ in the number of rows that their sums are over, and not in the rows of
  /// C.
  bool sums_rows() const { return shape.transpose_a; }
  /// Elements of C that are written.
  std::int64_t output_elements() const;
};

/// A tensor becomes operands of products in 8 or 4 bits.
struct QuantiseAttributes {
  Recipe recipe = Recipe::none;
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

/// The mask depends on an element's index in the whole model's tensor, so every layout draws the
/// same mask.
struct DropoutAttributes {
  DropoutSite site = DropoutSite::embedding;
  double rate = 0;  ///< 0 <= rate < 1
  /// The number of tensor ranks that the tensor is split over, by rows of the sequence or by heads;
  /// 1 if each rank holds all of it.
  int shards = 1;
};

struct SoftmaxAttributes {
  double scale = 1;           ///< factor of the scores: 1 / sqrt(head_dim)
  DropoutAttributes dropout;  ///< causal_softmax_dropout only
  std::int64_t matrices = 0;  ///< score matrices on this rank: b a/t
  std::int64_t window = 0;    ///< columns of a row up to the diagonal that count; 0: all of them
};

/// The part of attention that one call computes on a rank that splits sequences with others; see
/// attended_rows().
struct AttentionPart {
  enum class Kind : std::uint8_t {
    whole,            ///< all queries against the keys before them
    ring_step,        ///< all queries against the keys that the rank has in step `index`
    gathered_chunk,   ///< the rank's first or second chunk of queries against the keys of all
    contiguous_step,  ///< ring_step on ranks with consecutive rows
  };
  Kind kind = Kind::whole;
  int index = 0;
  int stride = 1;  ///< steps of a ring: its neighbours are this many ranks apart
};

struct FlashAttributes {
  double scale = 1;           ///< factor of the scores: 1 / sqrt(head_dim)
  DropoutAttributes dropout;  ///< dropout of the probabilities; masks are drawn, never stored
  std::int64_t window = 0;    ///< keys that a query attends to, its own included; 0: all before
  double softcap = 0;         ///< c: scaled scores x become c tanh(x / c); 0: no cap
  AttentionPart part{};
  bool is_low = false;  ///< its products are in 8 bits
};

/// Every member of a group sends to the member `by` positions after it, around.
struct ShiftAttributes {
  int by = 1;
};

/// The choices that decide where a token goes if it is sent once to each rank and node that has
/// experts of its choice.
struct UniqueTokens {
  std::int64_t experts = 1;
  std::int64_t per_token = 1;
  std::int64_t groups = 1;            ///< groups of experts
  std::int64_t groups_per_token = 1;  ///< groups among whose experts a token chooses
  /// The number of parts into which ranks split the experts; 0: one per rank. Equally many ranks
  /// share each part, and a token goes to all of them.
  std::int64_t parts = 0;
};

/// Properties of an all-to-all that its cost depends on and its bytes do not tell.
struct ExchangeAttributes {
  bool sends_once = false;  ///< pieces are `tokens`, which every rank has
  UniqueTokens tokens{};
  /// Tokens that reach the rank with the most, relative to choices that are all equally likely.
  double hottest = 1;
};

/// Reorders rows: the zigzag order of `ranks` ranks (see SequencePart) becomes the order of the
/// sequence, or the reverse.
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
  double weight = 1;       ///< factor of this loss in the loss that is trained
};

/// The tokens that an op loads: those of the microbatch, or tokens that come later in its
/// sequences.
struct TokensAttributes {
  int ahead = 0;  ///< tokens beyond the op's own distance (1 for labels, 0 for inputs)
};

/// Whether rows are multiplied by their factors, or by the sigmoids of the factors.
enum class RowFactor : std::uint8_t { identity, sigmoid };

struct RowScaleAttributes {
  RowFactor factor = RowFactor::identity;
};

struct ActivationAttributes {
  Activation activation = Activation::gelu;
};

/// As many groups of rows, each with a bias of its own.
struct GroupsAttributes {
  std::int64_t groups = 1;
};

class ForcedRouting;

/// Which choices an expert drops if more tokens choose it than it takes: those of lowest
/// probability, or those of the last tokens.
enum class DropBy : std::uint8_t { probabilities, position };

/// How logits [tokens, experts] become choices and probabilities. The choices are balanced,
/// whatever the logits are; or those of `forced`; or the router's, if there is a limit or
/// `unlimited` is set.
struct RoutingAttributes {
  RouterScore score = RouterScore::softmax;
  RouterOrder order = RouterOrder::after;
  bool normalise = true;
  double scaling = 1;
  std::int64_t per_token = 1;         ///< k
  std::int64_t groups = 1;            ///< groups of experts
  std::int64_t groups_per_token = 1;  ///< groups among whose experts a token may choose
  std::int64_t expert_rows = 0;       ///< rows that each expert takes at most; 0: no limit
  bool pads = true;                   ///< whether rows of an expert are padded to expert_rows
  DropBy drop = DropBy::probabilities;
  bool unlimited = false;  ///< whether the router chooses and nothing is dropped
  /// Counts that replace the router's choices; owned by the plan.
  ForcedRouting const* forced = nullptr;
  std::int64_t micro = 1;  ///< forced: rows go through this many sequences in turn
  int shards = 1;          ///< forced: tensor ranks that split the rows of each sequence

  constexpr bool is_by_router() const { return unlimited || expert_rows > 0; }
};

/// Losses that are trained beside the loss of the tokens, so that experts are chosen evenly and
/// logits stay small. With c_e the choices of expert e among N tokens, p_te the score of e for
/// token t as a share of the token's scores, and E experts:
///   balance E / (k N^2) sum_e c_e sum_t p_te + size / n sum_t (log sum_e exp(logit_te))^2
/// where n is the number of tokens of a microbatch, and N is n times the replicas that count
/// together.
/// Source: Megatron-LM, moe_utils.py: switch_load_balancing_loss_func, z_loss_func (Fedus et al.
/// 2021, arXiv:2101.03961, equation 4; Zoph et al. 2022, arXiv:2202.08906, equation 5).
struct RouterLossAttributes {
  RouterScore score = RouterScore::softmax;
  std::int64_t per_token = 1;  ///< k
  /// Sequences whose tokens are counted apart; their losses are averaged.
  std::int64_t sequences = 1;
  std::int64_t tokens = 0;  ///< n: tokens of the microbatch on all ranks that share it
  /// Replicas whose choices are counted together: N / n if sequences is 1.
  int replicas = 1;
  double balance = 0;  ///< coefficient of the loss on choices; 0: there are no counts
  double size = 0;     ///< coefficient of the loss on logits
};

/// Rows in outer x inner chunks. All chunks have the same number of rows, or an operand [outer,
/// inner] has their numbers ([inner, outer] if `by_inner` is set).
struct ChunkAttributes {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  bool by_inner = false;
};

struct ScaleAttributes {
  double factor = 1;
};

struct ClipAttributes {
  double largest_norm = 0;  ///< largest norm of all gradients together; 0: not clipped
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
struct AdamAttributes {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// An optimizer step that is taken unless the norm so far already needs clipping.
struct AdamAheadAttributes {
  AdamAttributes adam;
  ClipAttributes clip;
};

using OpAttributes = std::variant<NoAttributes,
                                  GemmAttributes,
                                  QuantiseAttributes,
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
                                  GroupsAttributes,
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
