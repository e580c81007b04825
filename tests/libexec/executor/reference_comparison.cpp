#include "tests/libexec/executor/reference_comparison.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "libexec/backends/numbers.hpp"
#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {
namespace {

constexpr double tolerance = 1e-10;
constexpr Name logits_product{"head.logits", "forward"};

/// A rank's part of a whole parameter; rows of padding are zero.
std::vector<double> part_of(std::vector<double> const& whole,
                            RankContext const& context,
                            PlacedParameter const& placed) {
  ParameterWindow const window = context.window(placed);
  // No REQUIRE here: ranks are threads, and Catch2 has one.
  if (whole.size() != static_cast<std::size_t>(window.whole_rows * window.whole_columns)) {
    throw std::logic_error{placed.name() + " has another size in the reference"};
  }
  std::vector<double> part(static_cast<std::size_t>(placed.elements()));
  for (RowRange const& rows : window.rows) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      auto const from =
          whole.begin() + (rows.whole + i) * window.whole_columns + window.first_column;
      std::copy_n(from, window.columns, part.begin() + (rows.local + i) * window.columns);
    }
  }
  return part;
}

}  // namespace

std::function<void(RankContext const&, RankExecutor&)> start_from(NamedTensors const& parameters) {
  return [&parameters](RankContext const& context, RankExecutor& executor) {
    ParameterStore& store = executor.parameters();
    for (PlacedParameter const& placed : store.layout()) {
      store.set(context.backend, placed, part_of(parameters.at(placed.name()), context, placed));
    }
  };
}

LogitsObserver::LogitsObserver(TrainingConfig const& config)
    : logits_(static_cast<std::size_t>(config.batch.global * config.model.sequence *
                                       config.model.vocabulary)) {}

void LogitsObserver::operator()(RankContext const& context, Op const& op, KernelCall const& call) {
  if (op.name != logits_product) return;
  Operand const& operand = call.writes[0];  // [s, b, words of this rank, padding included]
  std::vector<std::byte> bytes(static_cast<std::size_t>(operand.shape.elements()) * sizeof(double));
  context.backend.read(bytes.data(), operand.data, bytes.size());
  std::vector<double> const values = decode(bytes, operand.type);
  std::int64_t const s = operand.shape[0];
  std::int64_t const b = operand.shape[1];
  std::int64_t const words = operand.shape[2];
  std::int64_t const vocabulary = context.plan.config.model.vocabulary;
  std::int64_t const first_word = context.place.tensor * words;
  std::int64_t const first_sequence = call.draw.microbatch * b;
  std::int64_t const valid = std::clamp<std::int64_t>(vocabulary - first_word, 0, words);
  std::scoped_lock const lock{mutex_};
  for (std::int64_t i = 0; i < s; ++i) {
    for (std::int64_t j = 0; j < b; ++j) {
      std::int64_t const row = (first_sequence + j) * s + i;
      std::copy_n(values.begin() + (i * b + j) * words, valid,
                  logits_.begin() + row * vocabulary + first_word);
    }
  }
}

void require_same(std::string const& name,
                  std::vector<double> const& ours,
                  std::vector<double> const& theirs) {
  CAPTURE(name);
  REQUIRE(ours.size() == theirs.size());
  double difference = 0;
  double norm = 0;
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    difference += std::pow(ours[i] - theirs[i], 2);
    norm += std::pow(theirs[i], 2);
    largest = std::max(largest, std::abs(ours[i] - theirs[i]));
  }
  REQUIRE(norm > 0);
  REQUIRE(std::sqrt(difference) <= tolerance * std::sqrt(norm));
  REQUIRE(largest <= tolerance);
}

void require_same(std::vector<WholeTensor> const& ours, NamedTensors const& theirs) {
  REQUIRE(ours.size() == theirs.size());
  for (WholeTensor const& tensor : ours) {
    CAPTURE(tensor.name);
    REQUIRE(theirs.count(tensor.name) == 1);
    require_same(tensor.name, tensor.values, theirs.at(tensor.name));
  }
}

}  // namespace stagecraft
