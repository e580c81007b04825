#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "libexec/executor/token_source.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/uneven_runs.hpp"

namespace stagecraft::token_prediction_test {
namespace {

TrainingConfig predicting(TrainingConfig config, std::int64_t modules, bool is_tied = false) {
  config.model.predicted_tokens = modules;
  config.model.tied_embeddings = is_tied;
  return config;
}

/// Latent attention and, behind a dense layer, experts, as DeepSeek-V3 has them.
TrainingConfig small_v3(Precision precision) {
  TrainingConfig config = small_deepseek(precision, 6);
  config.model.experts = ExpertsConfig{.count = 4,
                                       .per_token = 2,
                                       .ffn_hidden = 12,
                                       .shared_ffn_hidden = 12,
                                       .first_dense = 1,
                                       .router = {.score = RouterScore::sigmoid, .scaling = 2.5}};
  return config;
}

/// The same, with rows that experts of each layer and of the module compute, all different.
TrainingConfig uneven_v3(Precision precision) {
  TrainingConfig config = predicting(small_v3(precision), 1);
  std::int64_t const tokens = config.model.sequence * config.batch.micro;
  config.routing = drawn_routing(5, config.model.layers + 1, 4, 2, tokens);
  return config;
}

/// The model written again, in double: RMS norms, grouped queries, rotary positions, SwiGLU, one
/// token after another.
class PlainModel {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  explicit PlainModel(TrainingConfig const& config) : model_{config.model} {
    for (WholeTensor& tensor : parameters_after(config, 1)) {
      weights_[tensor.name] = std::move(tensor.values);
    }
  }

  /// The loss of a sequence, for its tokens and those that follow it: the mean over its tokens,
  /// plus 0.1 times the mean over all modules.
  double loss(std::vector<std::int64_t> const& tokens) const {
    Rows x = hidden(tokens);
    double sum = mean_entropy(x, tokens, 1);
    for (std::int64_t m = 0; m < model_.predicted_tokens; ++m) {
      std::int64_t const layer = model_.layers + m;
      std::string const prefix = "layers." + std::to_string(layer) + ".prediction.";
      auto const ahead = static_cast<std::size_t>(m + 1);
      for (std::size_t i = 0; i < x.size(); ++i) {
        Row joined = normed(prefix + "embedding_norm", embedded(tokens[i + ahead]));
        Row const before = normed(prefix + "hidden_norm", x[i]);
        joined.insert(joined.end(), before.begin(), before.end());
        x[i] = product(prefix + "projection", joined);
      }
      x = normed(prefix + "final_norm", after_layer(layer, x));
      sum +=
          0.1 / static_cast<double>(model_.predicted_tokens) * mean_entropy(x, tokens, ahead + 1);
    }
    return sum;
  }
  double next_token_loss(std::vector<std::int64_t> const& tokens) const {
    return mean_entropy(hidden(tokens), tokens, 1);
  }

 private:
  /// The normed hidden states behind all layers.
  Rows hidden(std::vector<std::int64_t> const& tokens) const {
    Rows x;
    for (std::int64_t i = 0; i < model_.sequence; ++i) {
      x.push_back(embedded(tokens[static_cast<std::size_t>(i)]));
    }
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) x = after_layer(layer, x);
    return normed("final_norm", x);
  }

  Row const& weight(std::string const& name) const { return weights_.at(name + ".weight"); }

  Row embedded(std::int64_t token) const {
    Row const& table = weight("embedding");
    auto const first = table.begin() + token * model_.hidden;
    return {first, first + model_.hidden};
  }

  Row normed(std::string const& name, Row x) const {
    double squares = 0;
    for (double const value : x) squares += value * value;
    double const scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= scale * weight(name)[i];
    return x;
  }
  Rows normed(std::string const& name, Rows rows) const {
    for (Row& row : rows) row = normed(name, row);
    return rows;
  }

  Row product(std::string const& name, Row const& x) const {
    Row const& w = weight(name);
    Row y(w.size() / x.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
    }
    return y;
  }

  /// Rotates a head of d elements that begins at `first`.
  void rotate(Row& row, std::size_t first, std::size_t position) const {
    auto const d = static_cast<std::size_t>(model_.head_dim);
    for (std::size_t i = 0; i < d / 2; ++i) {
      double const angle = static_cast<double>(position) *
                           std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      double const low = row[first + i];
      double const high = row[first + d / 2 + i];
      row[first + i] = low * std::cos(angle) - high * std::sin(angle);
      row[first + d / 2 + i] = high * std::cos(angle) + low * std::sin(angle);
    }
  }

  Rows attention(std::string const& prefix, Rows const& x) const {
    auto const d = static_cast<std::size_t>(model_.head_dim);
    auto const heads = static_cast<std::size_t>(model_.heads);
    auto const groups = static_cast<std::size_t>(model_.kv_heads);
    Rows qkv;
    for (std::size_t i = 0; i < x.size(); ++i) {
      qkv.push_back(product(prefix + "attention.qkv", x[i]));
      for (std::size_t head = 0; head < heads + groups; ++head) rotate(qkv[i], head * d, i);
    }
    Rows out;
    for (std::size_t i = 0; i < x.size(); ++i) {
      Row context(heads * d);
      for (std::size_t head = 0; head < heads; ++head) {
        std::size_t const key = (heads + head / (heads / groups)) * d;
        Row scores;
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t e = 0; e < d; ++e) score += qkv[i][head * d + e] * qkv[j][key + e];
          scores.push_back(std::exp(score / std::sqrt(static_cast<double>(d))));
          sum += scores.back();
        }
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t e = 0; e < d; ++e) {
            context[head * d + e] += scores[j] / sum * qkv[j][key + groups * d + e];
          }
        }
      }
      out.push_back(product(prefix + "attention.projection", context));
    }
    return out;
  }

  Rows after_layer(std::int64_t layer, Rows x) const {
    std::string const prefix = "layers." + std::to_string(layer) + ".";
    add(x, attention(prefix, normed(prefix + "attention_norm", x)));
    Rows mlp;
    for (Row const& row : normed(prefix + "mlp_norm", x)) {
      Row const both = product(prefix + "mlp.up", row);
      std::size_t const width = both.size() / 2;
      Row inner(width);
      for (std::size_t i = 0; i < width; ++i) {
        inner[i] = both[i] / (1 + std::exp(-both[i])) * both[width + i];
      }
      mlp.push_back(product(prefix + "mlp.down", inner));
    }
    add(x, mlp);
    return x;
  }

  static void add(Rows& x, Rows const& y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < x[i].size(); ++j) x[i][j] += y[i][j];
    }
  }

  double mean_entropy(Rows const& x,
                      std::vector<std::int64_t> const& tokens,
                      std::size_t ahead) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      Row const logits = product(model_.tied_embeddings ? "embedding" : "head.logits", x[i]);
      double exponentials = 0;
      for (double const logit : logits) exponentials += std::exp(logit);
      sum += std::log(exponentials) - logits[static_cast<std::size_t>(tokens[i + ahead])];
    }
    return sum / static_cast<double>(x.size());
  }

  ModelConfig model_;
  std::map<std::string, Row> weights_;
};

TEST_CASE("the loss of multi-token prediction is that of a model written again", "[prediction]") {
  for (std::int64_t const modules : {0, 1, 3}) {
    for (bool const is_tied : {false, true}) {
      TrainingConfig config = predicting(small_llama(Precision::fp64), modules, is_tied);
      config.model.dropout = 0;
      config.training.learning_rate = 0;  // parameters stay where they start
      PlainModel const plain{config};
      auto const source = synthetic_tokens(config.model.vocabulary, 7);
      double sum = 0;
      double of_next = 0;
      for (std::int64_t sequence = 0; sequence < config.batch.global; ++sequence) {
        std::vector<std::int64_t> tokens(
            static_cast<std::size_t>(config.model.sequence + modules + 1));
        source->read(sequence, 0, tokens);
        sum += plain.loss(tokens);
        of_next += plain.next_token_loss(tokens);
      }
      CAPTURE(modules, is_tied);
      auto const sequences = static_cast<double>(config.batch.global);
      StepReport const step = execute(config).steps.front();
      REQUIRE(step.loss == Approx(sum / sequences).epsilon(1e-12));
      REQUIRE(step.next_token_loss.value_or(step.loss) ==
              Approx(of_next / sequences).epsilon(1e-12));
      REQUIRE(step.next_token_loss.has_value() == (modules > 0));
    }
  }
}

TEST_CASE("with modules of prediction every gradient is the slope of the loss", "[prediction]") {
  auto const is_any = [](std::string const&) { return true; };
  for (TrainingConfig config :
       {predicting(small_llama(Precision::fp64), 2), predicting(small_v3(Precision::fp64), 1),
        predicting(small_llama(Precision::fp64), 1, true)}) {
    config.model.layers = config.model.experts ? 2 : 1;  // the first is dense
    config.batch.global = 2;
    REQUIRE(config.model.dropout > 0);
    REQUIRE(require_slopes(config, is_any) >= 18);
  }
}

std::vector<TrainingConfig> layouts_of_predictions(TrainingConfig const& base, bool has_experts) {
  std::vector<TrainingConfig> configs;
  auto const add = [&](ParallelLayout layout, bool is_sharded = false) {
    if (has_experts && layout.tensor > 1 && !layout.sequence) return;
    if (has_experts && layout.tensor * layout.data > 1) layout.expert = 2;
    configs.push_back(base);
    configs.back().parallel = layout;
    configs.back().sharding = sharding_of(is_sharded);
  };
  add({.tensor = 2});
  add({.tensor = 2, .sequence = true});
  add({.tensor = 4, .sequence = true});
  add({.pipeline = 2});
  add({.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}, true);
  add({.pipeline = 2, .data = 2}, true);
  configs.push_back(base);
  configs.back().parallel = {.pipeline = 2, .interleave = 2};
  configs.back().schedule = {.kind = ScheduleKind::interleaved, .p2p = P2p::overlapped};
  configs.push_back(base);
  configs.back().parallel.pipeline = 4;
  configs.back().schedule = {.kind = ScheduleKind::zb_h1, .p2p = P2p::overlapped};
  return configs;
}

TEST_CASE("predictions on several ranks have the gradients and the loss of one", "[prediction]") {
  for (TrainingConfig const& base :
       {predicting(small_llama(Precision::fp64), 2), predicting(small_v3(Precision::fp64), 1),
        predicting(small_llama(Precision::fp64), 1, true), uneven_v3(Precision::fp64)}) {
    double const loss = execute(base).steps.front().loss;
    for (TrainingConfig const& config : layouts_of_predictions(base, !!base.model.experts)) {
      CAPTURE(config.parallel.tensor, config.parallel.pipeline, config.parallel.interleave);
      require_close(base, config, 1e-12);
      REQUIRE(execute(config).steps.front().loss == Approx(loss).epsilon(1e-13));
    }
  }
}

std::vector<RecomputePolicy> policies_of_predictions() {
  return {{},
          selective({"core_attention"}),
          selective({"layernorm", "mlp", "moe"}),
          {.granularity = RecomputeGranularity::full},
          {.granularity = RecomputeGranularity::full, .method = RecomputeMethod::block}};
}

TEST_CASE("recomputed predictions have the bits of stored ones", "[prediction]") {
  for (TrainingConfig const& base :
       {predicting(small_llama(Precision::fp32), 2), predicting(small_v3(Precision::bf16), 1)}) {
    for (RecomputePolicy const& policy : policies_of_predictions()) {
      TrainingConfig config = base;
      config.recompute = {policy};
      require_same_bits(base, config);
    }
  }
}

TEST_CASE("predictions hold what the simulator predicts, to the byte", "[prediction]") {
  std::vector<RecomputePolicy> const policies = policies_of_predictions();
  std::size_t turn = 0;
  for (Precision const precision : {Precision::bf16, Precision::fp64}) {
    for (TrainingConfig const& base :
         {predicting(small_llama(precision), 2), predicting(small_v3(precision), 1),
          predicting(small_llama(precision), 1, true), uneven_v3(precision)}) {
      for (TrainingConfig config : layouts_of_predictions(base, !!base.model.experts)) {
        config.recompute = {policies[turn++ % policies.size()]};
        require_predicted_bytes(config);
      }
    }
  }
  REQUIRE(turn >= 40);
}

TEST_CASE("training with predictions on a text lowers the loss", "[prediction]") {
  double const first = require_learning(predicting(small_v3(Precision::fp32), 1));
  REQUIRE(first == Approx(1.1 * std::log(256)).margin(0.1));
}

}  // namespace
}  // namespace stagecraft::token_prediction_test
