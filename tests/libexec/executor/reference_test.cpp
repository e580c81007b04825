#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <mutex>
#include <stdexcept>

#include "libexec/backends/number_codec.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libexec/reference/reference_training.hpp"

/// The executor against PyTorch: tests/libexec/reference/make_reference.py.
namespace stagecraft {
namespace {

/// Relative to the norm of each tensor, and absolute for each element. Rounding was seen to reach
/// 1e-14 in gradients, and 6e-13 in parameters after three updates.
constexpr double tolerance = 1e-10;

constexpr Name logits_product{"head.logits", "forward"};

struct NamedLayout {
  std::string name;
  ParallelLayout layout;
  bool distributed_optimizer = false;
};

std::vector<NamedLayout> layouts() {
  return {{"one rank", {}},
          {"t 2", {.tensor = 2}},
          {"t 2 sequence", {.tensor = 2, .sequence = true}},
          {"p 2", {.pipeline = 2}},
          {"d 2 distributed", {.data = 2}, true},
          {"t 2 p 2 d 2 sequence distributed",
           {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true},
           true}};
}

std::string variant() {
  return GENERATE(as<std::string>{}, "gpt", "gpt_dropout", "gpt_untied", "llama", "llama_dropout");
}

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

/// Logits [sequence of the global batch, position, word], put together from what ranks compute.
class LogitsObserver {
 public:
  explicit LogitsObserver(TrainingConfig const& config)
      : logits_(static_cast<std::size_t>(config.batch.global * config.model.sequence *
                                         config.model.vocabulary)) {}

  void operator()(RankContext const& context, Op const& op, KernelCall const& call) {
    if (op.name != logits_product) return;
    Operand const& operand = call.writes[0];  // [s, b, words of this rank, padding included]
    std::vector<std::byte> bytes(static_cast<std::size_t>(operand.shape.elements()) *
                                 sizeof(double));
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

  std::vector<double> const& logits() const { return logits_; }

 private:
  std::mutex mutex_;
  std::vector<double> logits_;
};

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

/// Runs the first step, and then all of them again with clipping, against the reference.
void compare(ReferenceTraining const& reference, TrainingConfig const& config, GemmKind gemm) {
  ReferenceTokens const tokens{reference};
  LogitsObserver observer{config};
  std::vector<StepReport> reports;
  SmallRun run{.gemm = gemm, .tokens = &tokens};
  run.options.before_first = [&](RankContext const& context, RankExecutor& executor) {
    ParameterStore& store = executor.parameters();
    for (PlacedParameter const& placed : store.layout()) {
      std::vector<double> const& whole = reference.parameters.at(placed.name());
      store.set(context.backend, placed, part_of(whole, context, placed));
    }
  };
  run.options.on_step = [&](StepReport const& report) { reports.push_back(report); };

  SmallRun first = run;
  first.options.on_op = std::ref(observer);
  require_same(gradients_of(config, first), reference.gradients);
  require_same("logits", observer.logits(), reference.logits);
  require_same("loss", {reports.at(0).loss}, {reference.steps.at(0).loss});

  reports.clear();
  auto const count = static_cast<int>(reference.steps.size());
  require_same(parameters_after(config, count, run), reference.parameters_after);
  for (std::size_t i = 0; i < reference.steps.size(); ++i) {
    CAPTURE(i);
    require_same("loss", {reports.at(i).loss}, {reference.steps[i].loss});
    require_same("norm", {reports.at(i).gradient_norm}, {reference.steps[i].gradient_norm});
  }
}

TEST_CASE("loss, logits, gradients and three updates are PyTorch's, on every layout",
          "[reference]") {
  std::string const name = variant();
  CAPTURE(name);
  ReferenceTraining const reference = read_reference(name);
  REQUIRE(reference.steps.size() == 3);
  for (Attention const attention : {Attention::unfused, Attention::flash}) {
    for (NamedLayout const& layout : layouts()) {
      CAPTURE(attention == Attention::flash, layout.name);
      TrainingConfig config = reference.config;
      config.model.attention = attention;
      config.parallel = layout.layout;
      config.memory.distributed_optimizer = layout.distributed_optimizer;
      compare(reference, config, GemmKind::plain);
    }
  }
}

TEST_CASE("products through BLAS lead to PyTorch's numbers too", "[reference]") {
  std::string const name = variant();
  CAPTURE(name);
  ReferenceTraining const reference = read_reference(name);
  compare(reference, reference.config, GemmKind::openblas);
}

}  // namespace
}  // namespace stagecraft
