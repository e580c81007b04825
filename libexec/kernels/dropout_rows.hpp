#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operand_checks.hpp"
#include "libexec/kernels/philox.hpp"

/// Which elements of the whole model a rank's dropouts work on: masks are drawn by global element.
namespace stagecraft {

/// Global index of the first element of a rank's hidden states [local rows, b, h].
inline std::uint64_t first_hidden_element(RankShare const& share) {
  return static_cast<std::uint64_t>(share.first_row() * share.shape.micro *
                                    share.shape.model.hidden);
}

/// Where a rank's attention probabilities [b, local heads, s, s] are among those of the model.
struct ProbabilityPlace {
  std::int64_t model_heads = 0;  ///< of all ranks
  std::int64_t first_head = 0;   ///< of this one
  std::int64_t sequence = 0;     ///< s

  /// Global index of column 0 in a row of a local head.
  STAGECRAFT_HOST_DEVICE std::uint64_t first_of(std::int64_t batch,
                                                std::int64_t head,
                                                std::int64_t row) const {
    return static_cast<std::uint64_t>(((batch * model_heads + first_head + head) * sequence + row) *
                                      sequence);
  }
};

inline ProbabilityPlace probability_place(RankShare const& share) {
  return {share.shape.model.heads, share.first_head(), share.shape.model.sequence};
}

/// How the elements of a dropout lie: rows of which only the first columns are alive.
///
/// Above the diagonal of attention probabilities nothing is drawn: mask and result are 0 there.
struct DropoutRows {
  bool causal = false;  ///< attention probabilities [b, heads, s, s], else hidden states [., h]
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::uint64_t first_hidden = 0;
  ProbabilityPlace probabilities;
  std::int64_t heads = 1;  ///< of this rank

  STAGECRAFT_HOST_DEVICE std::int64_t alive(std::int64_t row) const {
    return causal ? row % columns + 1 : columns;
  }
  /// Global index of column 0.
  STAGECRAFT_HOST_DEVICE std::uint64_t first_element(std::int64_t row) const {
    if (!causal) return first_hidden + static_cast<std::uint64_t>(row * columns);
    std::int64_t const head = row / columns;
    return probabilities.first_of(head / heads, head % heads, row % columns);
  }
};

/// Expects x to be attention probabilities or hidden states of this rank.
inline DropoutRows dropout_rows(RankShare const& share, KernelCall const& call, Operand const& x) {
  BlockShape const& shape = share.shape;
  bool const causal = x.shape.rank() == 4;
  std::int64_t const s = shape.model.sequence;
  Shape const expected = causal ? Shape{shape.micro, shape.heads(), s, s}
                                : Shape{shape.local_sequence(), shape.micro, shape.model.hidden};
  expect(call, x.shape == expected,
         "x is neither this rank's attention probabilities nor its rows");
  std::int64_t const columns = last_extent(x);
  return {causal,
          x.shape.elements() / columns,
          columns,
          first_hidden_element(share),
          probability_place(share),
          shape.heads()};
}

/// Rate and what follows from it.
template <typename C>
struct DropoutRate {
  std::uint32_t threshold = 0;
  C scale{1};  ///< of what is kept

  explicit DropoutRate(double rate)
      : threshold{keep_threshold(rate)}, scale{static_cast<C>(1.0 / (1.0 - rate))} {}
};

/// The rate of the dropout that a call draws for.
inline double dropout_rate(ModelConfig const& model, RandomDraw const& draw) {
  return draw.site == DropoutSite::attention ? attention_dropout(model) : model.dropout;
}

/// A mask operand, or null where it is drawn.
inline std::uint8_t* dropout_mask(KernelCall const& call,
                                  OperandList const& list,
                                  std::size_t index,
                                  Shape const& shape) {
  if (list.size() <= index) return nullptr;
  expect_tensor(call, list[index], ElementType::u8, shape);
  return elements_of<std::uint8_t>(list[index]);
}

}  // namespace stagecraft
