#include "libsim/import/megatron/megatron_stage_layers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/pipeline_layout.hpp"

namespace stagecraft {
namespace {

std::int64_t virtual_stages(TrainingConfig const& config) {
  return std::int64_t{config.parallel.pipeline} * config.parallel.interleave;
}

void set_list(TrainingConfig& config, std::vector<std::int64_t> layers) {
  config.layout = {
      .kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = std::move(layers)};
}

/// The numbers of `5,6,6,5`; empty if the text is anything else.
std::vector<std::int64_t> numbers_in(std::string const& text) {
  std::vector<std::int64_t> numbers;
  char const* at = text.data();
  char const* const end = at + text.size();
  while (at < end) {
    std::int64_t number = 0;
    auto const [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || (next != end && *next != ',')) return {};
    numbers.push_back(number);
    at = next == end ? end : next + 1;
  }
  return numbers;
}

void read_layout(MegatronArguments& arguments, std::string const& text, TrainingConfig& config) {
  std::int64_t const p = config.parallel.pipeline;
  std::int64_t const modules = config.model.predicted_tokens;
  auto const layers = parse_pipeline_layout(text, modules);
  if (!layers || static_cast<std::int64_t>(layers->size()) % p != 0) {
    arguments.report("pipeline-model-parallel-layout",
                     "stages of E, t and L cut by |, a multiple of the pipeline's " +
                         std::to_string(p) + " in number" +
                         (modules > 0 ? ", with an m for each of --mtp-num-layers before L" : ""));
    return;
  }
  set_list(config, *layers);
  config.parallel.interleave = static_cast<int>(static_cast<std::int64_t>(layers->size()) / p);
}

/// The embedding and the loss, if they are counted, take the place of a layer each.
void count_ends(TrainingConfig& config, bool counts_embedding, bool counts_loss) {
  std::int64_t const all = config.model.layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  std::int64_t const stages = virtual_stages(config);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), all / stages);
  if (counts_embedding) --layers.front();
  if (counts_loss) --layers.back();
  set_list(config, std::move(layers));
}

/// Whether layers divide into stages only together with the embedding and the loss, and no flag
/// says how else they lie. Megatron-LM refuses that, so that a flag must be missing.
bool lacks_counted_ends(MegatronArguments const& arguments, TrainingConfig const& config) {
  constexpr std::array<std::string_view, 5> others{
      "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
      "pp-partition-method", "num-layer-list", "noop-layers"};
  std::int64_t const stages = virtual_stages(config);
  return !arguments.is_strict() && config.model.layers % stages != 0 &&
         (config.model.layers + 2) % stages == 0 &&
         std::ranges::none_of(others, [&](std::string_view flag) { return arguments.has(flag); });
}

void read_counted_ends(MegatronArguments& arguments, TrainingConfig& config) {
  bool counts_embedding = arguments.has("account-for-embedding-in-pipeline-split");
  bool counts_loss = arguments.has("account-for-loss-in-pipeline-split");
  std::int64_t const stages = virtual_stages(config);
  if (!counts_embedding && !counts_loss && lacks_counted_ends(arguments, config)) {
    arguments.note("the layers divide into " + std::to_string(stages) +
                   " stages only with the embedding and the loss, as if "
                   "--account-for-embedding-in-pipeline-split and "
                   "--account-for-loss-in-pipeline-split were given");
    counts_embedding = counts_loss = true;
  }
  std::int64_t const all = config.model.layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  if ((!counts_embedding && !counts_loss) || stages > all) return;
  if (all % stages == 0) {
    count_ends(config, counts_embedding, counts_loss);
    return;
  }
  arguments.report(counts_embedding ? "account-for-embedding-in-pipeline-split"
                                    : "account-for-loss-in-pipeline-split",
                   "layers that with it divide into " + std::to_string(stages) + " stages");
}

/// Megatron-DeepSpeed balances the layers whose class has a name that matches. A tied head is an
/// EmbeddingPipe too, a head of its own is not.
void read_partition_method(MegatronArguments& arguments, TrainingConfig& config) {
  constexpr std::string_view flag = "pp-partition-method";
  std::string method = arguments.text(flag).value_or("");
  if (method.empty() || config.parallel.pipeline == 1) return;
  std::ranges::transform(method, method.begin(), [](unsigned char c) { return std::tolower(c); });
  bool const counts_ends = method == "type:transformer|embedding";
  bool const is_tied = !arguments.has("untie-embeddings-and-output-weights");
  std::int64_t const all =
      config.model.layers + (counts_ends ? 1 : 0) + (counts_ends && is_tied ? 1 : 0);
  bool const is_balanced = config.parallel.interleave == 1 && all % config.parallel.pipeline == 0;
  bool const is_read = (counts_ends || method == "type:transformer") && is_balanced;
  if (!is_read || arguments.ignores(flag)) {
    arguments.refuse(flag,
                     "type:transformer or type:transformer|embedding, if the layers that it counts "
                     "divide into " +
                         std::to_string(config.parallel.pipeline) + " stages",
                     {"an even split of the layers", "either way"});
  } else if (counts_ends) {
    count_ends(config, true, is_tied);
  }
}

void read_layer_list(MegatronArguments& arguments, TrainingConfig& config) {
  auto const text = arguments.text("num-layer-list");
  if (!text) return;
  std::vector<std::int64_t> layers = numbers_in(*text);
  bool const is_split =
      static_cast<std::int64_t>(layers.size()) == config.parallel.pipeline &&
      config.parallel.interleave == 1 &&
      std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == config.model.layers;
  if (is_split) {
    set_list(config, std::move(layers));
  } else {
    arguments.report("num-layer-list", "the layers of each of the " +
                                           std::to_string(config.parallel.pipeline) +
                                           " stages, cut by commas, " +
                                           std::to_string(config.model.layers) + " together");
  }
}

/// Layers that only fill up the stages, so that each has as many.
void leave_out_empty_layers(MegatronArguments& arguments, TrainingConfig& config) {
  constexpr std::string_view flag = "noop-layers";
  auto const text = arguments.text(flag);
  if (!text) return;
  std::vector<std::int64_t> const numbers = numbers_in(*text);
  std::set<std::int64_t> const empty{numbers.begin(), numbers.end()};
  std::int64_t const stages = virtual_stages(config);
  std::int64_t& layers = config.model.layers;
  bool const is_split = config.layout.kind != LayerSplit::Kind::list && layers % stages == 0 &&
                        !empty.empty() && *empty.begin() >= 0 && *empty.rbegin() < layers &&
                        static_cast<std::int64_t>(empty.size()) < layers;
  if (!is_split) {
    arguments.report(flag, "numbers of layers from 0, cut by commas, of layers (" +
                               std::to_string(layers) + ") that divide into " +
                               std::to_string(stages) + " stages");
    return;
  }
  std::vector<std::int64_t> list(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t const layer : empty) {
    --list[static_cast<std::size_t>(layer / (layers / stages))];
  }
  layers -= static_cast<std::int64_t>(empty.size());
  set_list(config, std::move(list));
  arguments.note("--noop-layers: " + std::to_string(empty.size()) +
                 " layers that do nothing are left out");
}

}  // namespace

void read_megatron_stage_layers(MegatronArguments& arguments, TrainingConfig& config) {
  if (auto const text = arguments.text("pipeline-model-parallel-layout")) {
    read_layout(arguments, *text, config);
    return;
  }
  read_counted_ends(arguments, config);
  read_partition_method(arguments, config);
  read_layer_list(arguments, config);
  leave_out_empty_layers(arguments, config);
}

}  // namespace stagecraft
