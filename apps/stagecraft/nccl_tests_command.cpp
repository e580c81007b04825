#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/commands.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/import/nccl_tests.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft {

namespace {

/// The tables' file beside a system file: mine.yaml has mine-collectives.csv.
std::filesystem::path tables_beside(std::filesystem::path const& system) {
  return system.parent_path() / (system.stem().string() + "-collectives.csv");
}

/// A name of configs/systems stays one; a file becomes absolute.
std::string base_text(std::string const& system) {
  std::error_code ignored;
  bool const is_file = std::filesystem::exists(system, ignored);
  return is_file ? std::filesystem::absolute(system).lexically_normal().string() : system;
}

int run_nccl_tests_import(CommandLine const& line) {
  std::vector<std::string> const& files = line.arguments();
  if (files.empty()) throw CommandLineError{"LOG", "no file", "one or more"};
  std::string const system = line.needed("system", "the system that was measured, or one like it");
  std::filesystem::path const output = line.needed("output", "the system file to write");
  std::filesystem::path const tables = tables_beside(output);
  std::vector<std::filesystem::path> inputs{files.begin(), files.end()};
  inputs.emplace_back(system);
  check_output("--output (-o)", output, OutputKind::system, inputs);
  check_output("--output (-o)", tables, OutputKind::csv, inputs);
  load_system_file(system);  // so that its problems are known before anything is written
  std::optional<OpKind> kind;
  if (line.has("collective")) {
    std::string const& word = line.value("collective");
    for (OpKind const named : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter}) {
      if (word == name_of(named)) kind = named;
    }
  }
  std::vector<NcclTestsLog> logs;
  std::string names;
  for (std::string const& file : files) {
    logs.push_back({read_text_file(file, "a log of nccl-tests"), file});
    names += (names.empty() ? "" : ", ") + std::filesystem::path{file}.filename().string();
  }
  NcclTestsImport const import = import_nccl_tests(logs, kind);
  for (std::string const& note : import.notes) std::cerr << "note: " << note << '\n';
  nlohmann::ordered_json root;
  root["base"] = base_text(system);
  for (auto const& [shape, points] : import.tables) {
    std::string const section = shape.nodes == 1 ? "node" : "network";
    root[section]["collectives"] = {{"value", tables.filename().string()},
                                    {"source", "nccl-tests: " + printable(names)},
                                    {"fitted", false}};
  }
  write_output(tables.string(), to_csv(import.tables));
  write_output(output.string(), origin_line(OutputKind::system, "import") + yaml_text(root));
  std::cerr << "wrote " << output.string() << " and " << tables.string() << " with "
            << import.tables.size() << (import.tables.size() == 1 ? " table\n" : " tables\n");
  return 0;
}

}  // namespace

Command nccl_tests_import() {
  return {
      .name = "nccl-tests",
      .introduction =
          R"(usage: stagecraft import nccl-tests LOG... --system BASE -o SYSTEM.yaml [options]

Makes a system file of what all_reduce_perf, all_gather_perf and reduce_scatter_perf of nccl-tests
print: BASE with the measured times, which take precedence over its rates. The times go to
SYSTEM-collectives.csv beside it. Measure with the ranks per node that your groups have, such as 8
for groups of whole nodes and 1 (-g 1, one rank a node) for data-parallel ones.
)",
      .examples =
          R"(  stagecraft import nccl-tests all_reduce.log all_gather.log --system dgx-h100 -o mine.yaml
  stagecraft simulate configs/paper/175b-present.yaml --set system=mine.yaml
)",
      .options = {{.name = "system",
                   .value = system_value("BASE"),
                   .description = "the system that was measured, or one like it: a file or a "
                                  "name of configs/systems"},
                  {.name = "output",
                   .letter = 'o',
                   .value = Value::file("SYSTEM.yaml"),
                   .description = "the system file to write"},
                  {.name = "collective",
                   .value = Value::word({"all_reduce", "all_gather", "reduce_scatter"}),
                   .description = "what logs of older versions measured, which do not say it"}},
      .argument = Value::file("LOG"),
      .run = run_nccl_tests_import};
}

}  // namespace stagecraft
