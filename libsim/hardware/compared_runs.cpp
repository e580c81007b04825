#include "libsim/hardware/compared_runs.hpp"

#include <algorithm>
#include <vector>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/compared_text.hpp"

namespace stagecraft {
namespace {

std::vector<ComparedRuns> read_all() {
  Diagnostics diagnostics;
  auto const root = parse_yaml(compared_text, "compared.yaml", diagnostics);
  diagnostics.throw_if_any();
  SectionReader reader{ConfigNode{*root, "", diagnostics}};
  std::vector<ComparedRuns> all;
  for (ConfigNode const& item : reader.take("systems").items()) {
    ComparedRuns& runs = all.emplace_back();
    SectionReader entry{item};
    entry.text("system", runs.system);
    entry.integer("runs", runs.runs, {1, 1'000'000}, Need::required);
    entry.number("median_percent", runs.median_percent,
                 {.lower = 0, .upper = 1000, .includes_upper = true}, Need::required);
    entry.finish();
  }
  reader.finish();
  diagnostics.throw_if_any();
  return all;
}

}  // namespace

ComparedRuns const* compared_runs_of(std::string_view system) {
  static std::vector<ComparedRuns> const all = read_all();
  auto const found = std::ranges::find(all, system, &ComparedRuns::system);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace stagecraft
