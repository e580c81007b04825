#include "apps/stagecraft/plan/plan_options.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/fix_names.hpp"
#include "apps/stagecraft/operating_options.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/interval/fit_probability.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

constexpr int most_ranks = 1 << 24;  // see plan_limits

void read_filters(CommandLine const& line, PlanOptions& options) {
  for (std::string const& text : line.values_of("fix")) {
    read_fix(text, options.request.filter);
    options.fixes.push_back({text, {}});
    read_fix(text, options.fixes.back().alone);
  }
}

/// Refuses keys that the search sets itself.
void check_override(std::string const& text) {
  if (!is_searched(text.substr(0, text.find('=')))) return;
  bool const is_sharding = text.starts_with("sharding");
  throw CommandLineError{"--set", "'" + text + "', which the search decides",
                         is_sharding ? "--fix distributed_optimizer=true, or false; units, of "
                                       "fsdp1 and fsdp2, are not searched yet: simulate and "
                                       "explain take them"
                                     : "--fix to hold it, or another key"};
}

/// Leaves plans of several stages out of a search with --safety if none of them has a probability:
/// too few such runs of the software were measured.
void keep_to_measured_pipelines(PlanOptions& options) {
  Software const& software = options.request.system.software;
  bool const knows_pipelines =
      std::ranges::any_of(memory_regimes(), [&](MemoryRegime const& regime) {
        return regime.is_pipelined && regime.software == described_stack(software);
      });
  if (knows_pipelines) return;
  std::string const reason = "too few runs of software '" + software.name +
                             "' with several stages and reserved bytes were measured for a "
                             "probability";
  std::vector<int>& pipeline = options.request.filter.pipeline;
  if (pipeline == std::vector{1}) return;
  if (!pipeline.empty() && std::ranges::find(pipeline, 1) == pipeline.end()) {
    throw CommandLineError{"--safety", "--fix pipeline without 1, but " + reason,
                           "--fix pipeline=1, or --margin, which keeps a share of the device free"};
  }
  pipeline = {1};
  options.fixes.push_back({"pipeline=1", {}});
  options.fixes.back().alone.pipeline = pipeline;
  options.warnings.push_back(
      "--safety: only plans of one stage are searched, as with --fix pipeline=1, because " +
      reason);
}

/// Reads --safety. Refuses software of which nothing was measured.
double read_safety(std::string const& text, SearchRequest const& request) {
  double const probability = number_from_zero("--safety", text);
  if (probability >= 1) {
    throw CommandLineError{"--safety", "'" + text + "'",
                           "a probability from 0 to below 1, such as 0.99"};
  }
  std::string known;
  for (MemoryRegime const& regime : memory_regimes()) {
    if (regime.software == described_stack(request.system.software)) return probability;
    if (known.find(regime.software) == std::string::npos) {
      known += (known.empty() ? "" : ", ") + regime.software;
    }
  }
  throw CommandLineError{"--safety",
                         "software '" + request.system.software.name +
                             "', of which too few runs with reserved bytes were measured for a "
                             "probability",
                         (known.empty() ? "no software yet" : known) +
                             "; with other software --margin keeps a share of the device free, "
                             "such as --margin 10%"};
}

/// Reads --margin: a share of the device in percent, a size, or 0.
std::int64_t read_margin(std::string const& text, std::int64_t device) {
  if (text == "0") return 0;
  std::optional<Bytes> size = parse_quantity<Bytes>(text);
  if (text.ends_with('%')) {
    double const percent = number_from_zero("--margin", text.substr(0, text.size() - 1));
    if (percent <= 100) size = Bytes{std::llround(percent / 100 * static_cast<double>(device))};
  }
  if (!size || size->count() > device) {
    throw CommandLineError{"--margin", "'" + text + "'",
                           "a share of the device as in 5%, a size as in 4GiB, or 0"};
  }
  return size->count();
}

/// Restricts the search to what --launchable names.
/// \throws CommandLineError  if it can run no plan of the model.
void read_launchable(std::string const& text, PlanOptions& options) {
  MegatronVersion const version = text == name_of(MegatronVersion::of_2022)
                                      ? MegatronVersion::of_2022
                                      : MegatronVersion::current;
  options.launchable = version;
  options.request.is_wanted = [version](TrainingConfig const& config) {
    return is_launchable(config, version);
  };
  // The schedules that its flags name.
  std::vector<ScheduleKind>& schedules = options.request.filter.schedule;
  if (schedules.empty()) schedules = {ScheduleKind::one_f_one_b, ScheduleKind::interleaved};
  Software const& stack = options.request.system.software;
  if (described_stack(stack) != text) {
    options.warnings.push_back("--launchable " + text +
                               ": times and memory are those of the software '" + stack.name +
                               "'; --software " + text + " has those of that framework");
  }
  auto const is_of_vocabulary = [](std::string const& gap) {
    return gap.starts_with("model.vocabulary");
  };
  std::string gaps;
  for (std::string const& gap : megatron_gaps_of_model(options.request.base, version)) {
    if (is_of_vocabulary(gap)) {  // files of the user's own say it
      options.warnings.push_back("--launchable " + text +
                                 " cannot run this model as it is: " + gap);
    } else {
      gaps += (gaps.empty() ? "" : "; ") + gap;
    }
  }
  if (gaps.empty()) return;
  MegatronVersion const other =
      version == MegatronVersion::current ? MegatronVersion::of_2022 : MegatronVersion::current;
  bool const other_can =
      std::ranges::all_of(megatron_gaps_of_model(options.request.base, other), is_of_vocabulary);
  throw CommandLineError{"--launchable",
                         "'" + text + "', which can run no plan of this model (" + gaps + ")",
                         std::string{other_can ? name_of(other) + std::string{", or "} : ""} +
                             "no --launchable: the flags of a plan then say what they leave out"};
}

/// Searches only the mode of transfers that --set names, if it does.
void hold_p2p(std::vector<std::string> const& overrides, SearchRequest& request) {
  bool const is_set = std::ranges::any_of(
      overrides, [](std::string const& text) { return text.starts_with("schedule.p2p="); });
  if (is_set && request.filter.p2p.empty()) request.filter.p2p = {request.base.schedule.p2p};
}

/// Asks for the best plan that the flags of the software stack can say, if they can say the model.
void seek_launchable(PlanOptions& options) {
  std::string const stack{described_stack(options.request.system.software)};
  MegatronVersion const version =
      stack == "megatron-core" ? MegatronVersion::current : MegatronVersion::of_2022;
  if (!stack.starts_with("megatron-")) return;
  options.stack_version = version;
  for (std::string const& gap : megatron_gaps_of_model(options.request.base, version)) {
    if (gap.starts_with("model.vocabulary")) continue;  // files of the user's own say it
    options.stack_gap = gap;
    return;
  }
  options.request.is_launchable = [version](TrainingConfig const& config) {
    return is_launchable(config, version);
  };
}

constexpr char const* command_line = "the command line";

/// Moves problems in the generated run file to the options of the command line that they come from.
std::vector<Problem> at_options(std::vector<Problem> problems) {
  for (Problem& problem : problems) {
    if (!problem.place.origin || *problem.place.origin != command_line) continue;
    problem.place = {};
    if (problem.key == "system") problem.key = "--system";
    if (problem.key == "model") problem.key = "MODEL";
    if (problem.key == "software") problem.key = "--software";
  }
  return problems;
}

/// The most ranks that split the experts of a layer of the model; 1 without experts.
std::int64_t most_expert_ranks(ModelConfig const& model) {
  std::int64_t most = 1;
  for (LayerRun const& run : layer_runs(model)) {
    if (run.kind.experts) most = std::max(most, run.kind.experts->count);
  }
  return most;
}

/// The run that the search varies. `experts`: ranks that split the experts; with 1, one sequence on
/// one rank, which is legal for every model.
RunConfig load_base(std::string const& model,
                    std::string const& system,
                    std::optional<std::string> const& software,
                    std::vector<std::string> const& overrides,
                    std::int64_t experts) {
  auto const quoted = [](std::string const& path) {
    return nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  try {
    std::string text = "model: " + quoted(model) + "\nsystem: " + quoted(system) +
                       "\nschedule: {kind: 1f1b}\nbatch: {global: " + std::to_string(experts) +
                       "}\n";
    if (experts > 1) {
      std::string const ranks = std::to_string(experts);
      text += "parallel: {data: " + ranks + ", expert: " + ranks + "}\n";
    }
    if (software) text += "software: " + quoted(*software) + "\n";
    return parse_run_config(text, command_line, overrides);
  } catch (ConfigError const& error) {
    throw ConfigError{at_options(error.problems())};
  }
}

/// The same for any values of `routing`, whose bounds depend on how the experts are split.
RunConfig load_base_with_routing(std::string const& model,
                                 std::string const& system,
                                 std::optional<std::string> const& software,
                                 std::vector<std::string> const& overrides) {
  for (std::string const& text : overrides) check_override(text);
  std::vector<std::string> others;
  std::copy_if(overrides.begin(), overrides.end(), std::back_inserter(others),
               [](std::string const& text) { return !text.starts_with("routing"); });
  RunConfig plain = load_base(model, system, software, others, 1);
  if (others.size() == overrides.size()) return plain;
  return load_base(model, system, software, overrides, most_expert_ranks(plain.training.model));
}

/// The stack of a plan unless --software or --set names one: that of --launchable, else that of the
/// paper on the paper's cluster, and of today elsewhere. nullopt: the run file's default.
std::optional<std::string> default_software(CommandLine const& line, RunConfig const& base) {
  if (line.has("launchable")) return line.value("launchable");
  constexpr char const* cluster_of_the_paper = "selene-a100";
  if (base.system.name == cluster_of_the_paper) return std::nullopt;
  return name_of(MegatronVersion::current);
}

/// The run that the search on a system varies.
RunConfig read_base(CommandLine const& line, std::string const& system) {
  std::string const& model = line.arguments().front();
  std::vector<std::string> const& overrides = line.values_of("set");
  std::optional<std::string> const software = line.find("software");
  RunConfig base = load_base_with_routing(model, system, software, overrides);
  bool const is_chosen = software || std::ranges::any_of(overrides, [](std::string const& text) {
                           return text.starts_with("software=") || text.starts_with("software.");
                         });
  if (is_chosen) return base;
  std::optional<std::string> const stack = default_software(line, base);
  return stack ? load_base_with_routing(model, system, stack, overrides) : base;
}

}  // namespace

std::vector<Option> plan_options() {
  return {
      {.name = "system",
       .value = system_value("S.yaml"),
       .description = "the machine, or several to compare: dgx-h100,b200-hgx"},
      {.name = "software",
       .value = software_value("W.yaml"),
       .description = "the software stack: a file, or a name of configs/software such as nanotron "
                      "(default: that of --launchable, else megatron-2022 on selene-a100 and "
                      "megatron-core elsewhere)"},
      {.name = "gpus",
       .value = Value::text("N"),
       .description = "number of accelerators; every plan uses all of them. As many numbers as "
                      "systems pair up with them: 16,8"},
      {.name = "global-batch",
       .value = Value::text("B"),
       .description = "sequences per optimizer step"},
      {.name = "top",
       .value = Value::text("K"),
       .fallback = "10",
       .description = "how many of the fastest plans to show"},
      {.name = "rank",
       .value = Value::word({"iteration", "tokens", "cost", "energy"}),
       .fallback = "iteration",
       .description = "what plans of several clusters are ranked by: seconds of an iteration, "
                      "tokens per second and GPU, cost per token (with --price), or energy (with "
                      "--power)"},
      {.name = "all", .description = "print everything, where the answer else keeps to 40 lines"},
      {.name = "front", .description = "also print the front of time against memory"},
      {.name = "fix",
       .value = Value::text("NAME=VALUE,...").offering("fixed", fix_beginnings),
       .may_repeat = true,
       .description = fix_description()},
      {.name = "set",
       .value = setting_value(),
       .may_repeat = true,
       .description =
           "override a key that is not searched, e.g. --set memory.reserve=4GiB; may be repeated"},
      {.name = "margin",
       .value = Value::text("M"),
       .fallback = "5%",
       .description = "what each GPU keeps free beside memory.reserve: a share of its memory or a "
                      "size such as 4GiB; 0 fills it"},
      {.name = "safety",
       .value = Value::text("P"),
       .description = "only plans that fit with at least this probability, 0 to below 1, by how "
                      "far measured runs of the software were from their predicted bytes"},
      {.name = "launchable",
       .value = Value::word({name_of(MegatronVersion::of_2022), name_of(MegatronVersion::current)}),
       .description = "only plans that this framework's flags can say and run: megatron-2022 or "
                      "megatron-core"},
      {.name = "exhaustive", .description = "simulate every plan, dismiss none by bounds"},
      jobs_option(),
      {.name = "output",
       .letter = 'o',
       .value = Value::file("BEST.yaml"),
       .description = "write the best plan as a run file"},
      {.name = "report",
       .value = Value::file("F.html"),
       .description = "write a page that compares the plans: time, memory, money, uncertainty"},
      {.name = "kit",
       .value = Value::text("DIR"),
       .description = "write what starts the best plan that can be launched: scripts for torchrun "
                      "and Slurm, flags, a recipe, the run file; DIR is new or empty"},
      {.name = "json", .description = "print one JSON document"}};
}

namespace {

/// A batch larger than any that was published is one of tokens by mistake: the largest have tens of
/// millions of tokens.
std::optional<std::string> batch_warning(SearchRequest const& request) {
  constexpr double most_tokens = 5e8;
  double const tokens =
      static_cast<double>(request.global_batch) * static_cast<double>(request.base.model.sequence);
  if (tokens <= most_tokens) return std::nullopt;
  std::int64_t const meant =
      std::max<std::int64_t>(request.global_batch / request.base.model.sequence, 1);
  return "--global-batch counts sequences: " + std::to_string(request.global_batch) +
         " of them are " + decimals(tokens * 1e-9, 1) +
         " billion tokens per optimizer step. If it is a number of tokens, say --global-batch " +
         std::to_string(meant);
}

}  // namespace

namespace {

/// A system with a number of accelerators, as the command line has them.
struct Cluster {
  std::string system;
  int gpus = 0;

  friend bool operator==(Cluster const&, Cluster const&) = default;
};

/// Pairs the lists of --system and --gpus; one value serves all.
std::vector<Cluster> read_clusters(CommandLine const& line) {
  std::vector<std::string> const systems =
      list_items(line.needed("system", "a system file, or several"));
  std::vector<std::string> const numbers =
      list_items(line.needed("gpus", "a number of accelerators, or several"));
  std::size_t const count = std::max(systems.size(), numbers.size());
  bool const pair_up = (systems.size() == count || systems.size() == 1) &&
                       (numbers.size() == count || numbers.size() == 1) && !systems.empty() &&
                       !numbers.empty();
  if (!pair_up) {
    throw CommandLineError{
        "--gpus", "'" + line.value("gpus") + "' beside " + counted(std::ssize(systems), "system"),
        "one number for all systems, or as many numbers as systems: " + line.value("system")};
  }
  std::vector<Cluster> clusters;
  for (std::size_t i = 0; i < count; ++i) {
    Cluster cluster{systems[systems.size() == 1 ? 0 : i],
                    whole_number("--gpus", numbers[numbers.size() == 1 ? 0 : i], 1, most_ranks)};
    if (std::ranges::find(clusters, cluster) != clusters.end()) {
      throw CommandLineError{
          "--gpus", "'" + std::to_string(cluster.gpus) + "' of " + cluster.system + " twice",
          "each system with each number once"};
    }
    clusters.push_back(std::move(cluster));
  }
  return clusters;
}

/// What is asked of one cluster, but for its rates.
PlanOptions read_plan_options(CommandLine const& line, Cluster const& cluster) {
  PlanOptions options;
  SearchRequest& request = options.request;
  options.system = cluster.system;
  request.gpus = cluster.gpus;
  line.needed("global-batch", "sequences per optimizer step");
  request.global_batch = line.whole_number("global-batch", 1, std::numeric_limits<int>::max());
  request.top = line.whole_number("top", 1, 1000);
  request.exhaustive = line.has("exhaustive");
  request.jobs = jobs_of(line);
  read_filters(line, options);
  RunConfig base = read_base(line, cluster.system);
  if (base.training.offload != Offload{}) {
    throw CommandLineError{"--set", "offload of optimizer state",
                           "`offload: none`: plan does not weigh what the host holds"};
  }
  request.base = std::move(base.training);
  request.system = std::move(base.system);
  options.warnings = std::move(base.warnings);
  hold_p2p(line.values_of("set"), request);
  request.margin =
      read_margin(line.value("margin"), request.system.accelerator.memory.value.count());
  if (line.has("safety")) {
    request.safety = read_safety(line.value("safety"), request);
    if (request.safety > 0) keep_to_measured_pipelines(options);
  }
  if (line.has("launchable")) {
    read_launchable(line.value("launchable"), options);
  } else {
    seek_launchable(options);
  }
  if (auto warning = batch_warning(request)) options.warnings.push_back(std::move(*warning));
  TrainingConfig job = request.base;  // on so many accelerators
  if (request.filter.context.size() == 1) job.parallel.context = request.filter.context.front();
  job.parallel.data = std::max(1, request.gpus / world_size(job.parallel));
  if (auto warning = validation_warning(job, request.system)) {
    options.warnings.push_back(std::move(*warning));
  }
  return options;
}

PlanRank read_rank(CommandLine const& line) {
  PlanRank rank = PlanRank::iteration;
  for (PlanRank const one : {PlanRank::tokens, PlanRank::cost, PlanRank::energy}) {
    if (line.value("rank") == name_of(one)) rank = one;
  }
  for (auto const& [of, option] :
       {std::pair{PlanRank::cost, "price"}, std::pair{PlanRank::energy, "power"}}) {
    if (rank != of || line.has(option)) continue;
    throw CommandLineError{
        "--rank", std::string{"'"} + name_of(rank) + "' without --" + option,
        std::string{name_of(rank)} + " together with --" + option + ", or another rank"};
  }
  return rank;
}

/// Refuses a folder that holds something, or cannot be one.
std::filesystem::path read_kit(std::string const& text) {
  std::filesystem::path path{text};
  std::error_code ignored;
  bool const is_free =
      !std::filesystem::exists(path, ignored) ||
      (std::filesystem::is_directory(path, ignored) && std::filesystem::is_empty(path, ignored));
  if (is_free && !text.empty()) return path;
  bool const is_folder = std::filesystem::is_directory(path, ignored);
  throw CommandLineError{"--kit",
                         "'" + text + "', which is " +
                             (text.empty() ? "no name"
                              : is_folder  ? "not empty"
                                           : "no folder"),
                         "a new or empty folder"};
}

}  // namespace

std::string name_of_cluster(PlanOptions const& options) {
  return std::to_string(options.request.gpus) + " x " + printable(options.request.system.name);
}

PlanQuestion read_plan_question(CommandLine const& line) {
  std::vector<std::string> const& models = line.arguments();
  if (models.size() != 1) {
    throw CommandLineError{"MODEL", file_count(models.size()), "one model file"};
  }
  PlanQuestion question;
  std::vector<Cluster> const clusters = read_clusters(line);
  question.rank = read_rank(line);
  question.json = line.has("json");
  question.shows_all = line.has("all");
  question.shows_front = line.has("front");
  question.command_line = "stagecraft plan " + line.text();
  std::vector<std::filesystem::path> inputs{models.front(), line.find("software").value_or("")};
  for (Cluster const& cluster : clusters) inputs.emplace_back(cluster.system);
  if (line.has("output")) {
    question.output = line.value("output");
    check_output("--output (-o)", *question.output, OutputKind::run, inputs);
  }
  if (line.has("report")) {
    question.page = line.value("report");
    check_output("--report", *question.page, OutputKind::page, inputs);
  }
  if (line.has("kit")) question.kit = read_kit(line.value("kit"));
  SystemRates const rates = read_system_rates(line);
  std::vector<std::vector<std::string>> systems;
  for (Cluster const& cluster : clusters) {
    question.clusters.push_back(read_plan_options(line, cluster));
    systems.push_back(
        names_of_system(cluster.system, question.clusters.back().request.system.name));
    question.clusters.back().rates = rates.of(systems.back());
  }
  require_rates(rates, systems);
  return question;
}

}  // namespace stagecraft
