#include "apps/stagecraft/plan/plan_options.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "apps/program/file_count.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/fix_names.hpp"
#include "apps/stagecraft/operating_options.hpp"
#include "apps/stagecraft/plan/plan_base.hpp"
#include "apps/stagecraft/plan/plan_launchable.hpp"
#include "apps/stagecraft/plan/plan_margin.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/cost/gemm_time.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/hardware/recipe_support.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/program/low_library.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/sharding.hpp"
#include "libsim/training/size_limits.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

/// The words of --precision and of --sharding, without the commas.
std::vector<std::string> recipe_words() {
  std::vector<std::string> words{"any", std::string{name_of(Recipe::none)}};
  for (RecipeTraits const& row : recipe_traits) words.emplace_back(name_of(row.recipe));
  return words;
}
std::vector<std::string> sharding_words() {
  std::vector<std::string> words{"any"};
  for (auto const& [kind, name] : EnumNames<ShardingKind>::all) words.emplace_back(name);
  return words;
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (LaunchFramework const& framework : launch_frameworks()) names.emplace_back(framework.name);
  return names;
}

void read_filters(CommandLine const& line, PlanOptions& options) {
  auto const add = [&](std::string const& text, std::string_view option = "--fix") {
    read_fix(text, options.request.filter);
    options.fixes.push_back({text, {}, option});
    read_fix(text, options.fixes.back().alone);
  };
  for (std::string const& text : line.values_of("fix")) add(text);
  if (!line.has("sharding")) return;
  try {
    add("sharding=" + line.value("sharding"), "--sharding");
  } catch (CommandLineError const&) {
    std::string const names = accepted_names<ShardingKind>() + ", with commas between them, or any";
    std::string hint;
    for (std::string const& word : list_items(line.value("sharding"))) {
      if (hint.empty() && !value_named<ShardingKind>(word))
        hint = did_you_mean_of_list(word, names);
    }
    throw CommandLineError{"--sharding", "'" + line.value("sharding") + "'", names + hint};
  }
}

/// Searches only the mode of transfers that --set names, if it does.
void hold_p2p(std::vector<std::string> const& overrides, SearchRequest& request) {
  bool const is_set = std::ranges::any_of(
      overrides, [](std::string const& text) { return text.starts_with("schedule.p2p="); });
  if (is_set && request.filter.p2p.empty()) request.filter.p2p = {request.base.schedule.p2p};
}

}  // namespace

std::vector<Option> plan_options() {
  return {
      {.name = "system",
       .value = system_value("S.yaml").with_commas(),
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
      {.name = "precision",
       .value = Value::text("R,R,...|any").offering("recipes", recipe_words).with_commas(),
       .description = "recipes of low_precision to compare, none among them: none,current; or any, "
                      "all that the accelerator has"},
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
       .value = Value::text("NAME=VALUE,...").offering("fixed", fix_beginnings).with_commas(),
       .may_repeat = true,
       .description = fix_description()},
      {.name = "sharding",
       .value = Value::text("K,...").offering("shardings", sharding_words).with_commas(),
       .description = "the kinds of sharding to search: " + accepted_names<ShardingKind>() +
                      ", or any (default: those that the software stack has); --set "
                      "sharding.strategy=S holds a strategy of megatron_fsdp"},
      {.name = "set",
       .value = setting_value(),
       .may_repeat = true,
       .description =
           "override a key that is not searched, e.g. --set model.sequence=8192 or --set "
           "memory.reserve=4GiB; may be repeated"},
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
       .value = Value::word(framework_names()),
       .description = "only plans that this framework's settings can say and run"},
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
       .value = Value::folder(),
       .description = "write what starts the best plan that can be launched: scripts for torchrun "
                      "and Slurm, flags, a recipe, the run file; DIR is new or empty"},
      {.name = "json", .description = "print one JSON document"}};
}

namespace {

/// Refuses a batch larger than any that was published: it is one of tokens by mistake. The largest
/// have tens of millions of tokens.
void check_batch(std::string const& text, SearchRequest const& request) {
  constexpr double most_tokens = 5e8;
  double const tokens =
      static_cast<double>(request.global_batch) * static_cast<double>(request.base.model.sequence);
  if (tokens <= most_tokens) return;
  std::int64_t const meant =
      std::max<std::int64_t>(request.global_batch / request.base.model.sequence, 1);
  throw CommandLineError{
      "--global-batch",
      "'" + text + "' sequences, which are " + decimals(tokens * 1e-9, 1) +
          " billion tokens per optimizer step",
      "sequences, at most 500 million tokens; that many tokens are --global-batch " +
          std::to_string(meant)};
}

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
  constexpr auto most = static_cast<int>(plan_limits.ranks);
  std::vector<Cluster> clusters;
  for (std::size_t i = 0; i < count; ++i) {
    Cluster cluster{systems[systems.size() == 1 ? 0 : i],
                    whole_number("--gpus", numbers[numbers.size() == 1 ? 0 : i], 1, most)};
    if (std::ranges::find(clusters, cluster) != clusters.end()) {
      throw CommandLineError{
          "--gpus", "'" + std::to_string(cluster.gpus) + "' of " + cluster.system + " twice",
          "each system with each number once"};
    }
    clusters.push_back(std::move(cluster));
  }
  return clusters;
}

/// The recipes of --precision; nullopt: that of the run, without --precision. `any` are all that
/// the accelerator and the library of the stack have.
std::vector<std::optional<Recipe>> read_recipes(CommandLine const& line, System const& system) {
  if (line.value("precision") == "any") {
    std::vector<std::optional<Recipe>> recipes{Recipe::none};
    LibraryTraits const& library = traits_of(system.software.kernels.low_precision.value);
    for (RecipeTraits const& row : recipe_traits) {
      bool const is_there = has_recipe(system.accelerator, row) && has_recipe(library, row.recipe);
      if (is_there) recipes.emplace_back(row.recipe);
    }
    return recipes;
  }
  std::string accepted = "any, or once each of none";
  for (RecipeTraits const& row : recipe_traits) accepted += ", " + std::string{name_of(row.recipe)};
  std::vector<std::optional<Recipe>> recipes;
  for (std::string const& word : list_items(line.value("precision"))) {
    auto const recipe = value_named<Recipe>(word);
    bool const is_known = recipe && (*recipe == Recipe::none || find_recipe(*recipe) != nullptr);
    bool const is_twice = std::ranges::find(recipes, recipe) != recipes.end();
    if (!is_known || is_twice) {
      throw CommandLineError{"--precision", "'" + word + (is_known ? "' twice" : "'"), accepted};
    }
    recipes.push_back(recipe);
  }
  if (recipes.empty()) throw CommandLineError{"--precision", "nothing", accepted};
  return recipes;
}

/// What is asked of one cluster, but for its rates.
PlanOptions read_plan_options(CommandLine const& line,
                              Cluster const& cluster,
                              std::optional<Recipe> recipe) {
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
  RunConfig base = read_plan_base(line, cluster.system, recipe);
  request.base = std::move(base.training);
  request.system = std::move(base.system);
  options.warnings = std::move(base.warnings);
  options.overrides = line.values_of("set");
  options.base_without = [line, system = cluster.system,
                          recipe](std::string const& text) -> std::optional<TrainingConfig> {
    try {
      return read_plan_base(line, system, recipe, text).training;
    } catch (ConfigError const&) {
      return std::nullopt;
    }
  };
  check_batch(line.value("global-batch"), request);
  hold_p2p(line.values_of("set"), request);
  request.margin =
      read_margin(line.value("margin"), request.system.accelerator.memory.value.count());
  if (line.has("safety")) read_safety(line.value("safety"), options);
  if (line.has("launchable")) {
    read_launchable(line.value("launchable"), options);
  } else {
    seek_launchable(options);
  }
  check_modules(options);
  hold_sharding_keys(line.values_of("set"), recipe, request, options.warnings);
  TrainingConfig job = request.base;  // on so many accelerators
  if (request.filter.context.size() == 1) job.parallel.context = request.filter.context.front();
  job.parallel.data = std::max(1, request.gpus / world_size(job.parallel));
  if (auto warning = validation_warning(job, request.system)) {
    options.warnings.push_back(std::move(*warning));
  }
  return options;
}

/// Warns of rates of products in fewer bits that exceed by far what the peaks promise: then they
/// are of other measurements than those in 16 bits, and a comparison favours them.
void warn_of_rates(PlanOptions& options) {
  SearchRequest const& request = options.request;
  RecipeTraits const* const recipe = find_recipe(request.base.low_precision.recipe);
  if (recipe == nullptr) return;
  Accelerator const& accelerator = request.system.accelerator;
  FlopsPerSecond const* const wide =
      matrix_peak(accelerator.peak.value, request.base.model.precision, request.base.tf32);
  auto const& low = low_peak(accelerator.peak.value, recipe->elements);
  bool const is_of_4 = element_bits(recipe->elements) == 4;
  std::string const bits = is_of_4 ? "4" : "8";
  if (is_of_4) {
    options.warnings.push_back(std::string{name_of(recipe->recipe)} +
                               ": training in 4 bits may change the loss; times alone are ranked");
  }
  constexpr double most_excess = 1.1;
  Calibration const& constants = request.system.calibration;
  double const of_wide =
      main_loop_efficiency(activation_type(request.base.model.precision), constants);
  double const excess = main_loop_efficiency(recipe->elements, constants) / of_wide;
  if (wide == nullptr || !low || excess <= most_excess) return;
  double const peaks = low->value / wide->value;
  options.warnings.push_back(
      request.system.name + ": products in " + bits + " bits are predicted " +
      decimals(peaks * excess, 2) + " times as fast as in " +
      std::string{name_of(request.base.model.precision)} + ", where the peaks have " +
      decimals(peaks, 2) +
      "; the two rates come from different kinds of measurements (calibration." +
      (is_of_4 ? "fp4_gemm_efficiency" : "low_gemm_efficiency") + ", gemm_efficiency)");
}

/// What is asked of one cluster, once for each recipe. A recipe that the library of the stack does
/// not have, or the accelerator, if there are others, or in which no run is legal, is left out with
/// a line in `left_out`.
std::vector<PlanOptions> options_by_recipe(CommandLine const& line,
                                           Cluster const& cluster,
                                           bool has_others,
                                           std::vector<std::string>& left_out) {
  std::vector<PlanOptions> all;
  if (!line.has("precision")) {
    all.push_back(read_plan_options(line, cluster, std::nullopt));
    return all;
  }
  System const system = read_plan_base(line, cluster.system, Recipe::none).system;
  LibraryTraits const& library = traits_of(system.software.kernels.low_precision.value);
  for (std::optional<Recipe> const recipe : read_recipes(line, system)) {
    RecipeTraits const* const traits = find_recipe(*recipe);
    std::string const what =
        "--precision " + std::string{name_of(*recipe)} + " is left out on " + cluster.system + ": ";
    if (traits != nullptr && !has_recipe(library, *recipe)) {
      left_out.push_back(what + std::string{name_of(library.library)} + ", with which " +
                         system.software.name + " quantises, does not have it");
      continue;
    }
    if (has_others && traits != nullptr && !has_recipe(system.accelerator, *traits)) {
      left_out.push_back(what + "it has no such products");
      continue;
    }
    std::optional<PlanOptions> options;
    try {
      options = read_plan_options(line, cluster, recipe);
    } catch (ConfigError const& error) {
      // Where nothing is quantised the model or the options are wrong.
      if (traits == nullptr) throw;
      Problem problem = error.problems().front();
      problem.place = {};  // nobody typed it
      left_out.push_back(what + to_string(problem));
      continue;
    }
    if (traits != nullptr && !has_plans(options->request)) {
      left_out.push_back(what + "no run is legal with it");
      continue;
    }
    warn_of_rates(*options);
    all.push_back(std::move(*options));
  }
  return all;
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

PlanQuestion read_plan_question(CommandLine const& line) {
  std::vector<std::string> const& models = line.arguments();
  if (models.size() != 1) {
    auto const setting = std::ranges::find_if(
        models, [](std::string const& text) { return text.find('=') != std::string::npos; });
    if (setting == models.end()) {
      throw CommandLineError{"MODEL", file_count(models.size()), "one model file"};
    }
    bool const is_fix = has_fix_name(*setting);
    throw CommandLineError{"MODEL", "'" + *setting + "' beside the model",
                           "one model file; an option stands before each value: " +
                               std::string{is_fix ? "--fix " : "--set "} + *setting};
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
  std::vector<std::string> left_out;
  for (Cluster const& cluster : clusters) {
    for (PlanOptions& options : options_by_recipe(line, cluster, clusters.size() > 1, left_out)) {
      systems.push_back(names_of_system(cluster.system, options.request.system.name));
      options.rates = rates.of(systems.back());
      question.clusters.push_back(std::move(options));
    }
  }
  if (question.clusters.empty()) {
    std::string reasons;
    for (std::string const& reason : left_out) reasons += (reasons.empty() ? "" : "; ") + reason;
    throw CommandLineError{"--precision", "'" + line.value("precision") + "'",
                           "recipes in which some run is legal (" + reasons + ")"};
  }
  std::ranges::move(left_out, std::back_inserter(question.clusters.front().warnings));
  require_rates(rates, systems);
  return question;
}

}  // namespace stagecraft
