#include "apps/stagecraft/plan/plan_margin.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/interval/fit_probability.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

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
  options.fixes.push_back({"pipeline=1", {}, "--safety"});
  options.fixes.back().alone.pipeline = pipeline;
  options.warnings.push_back(
      "--safety: only plans of one stage are searched, as with --fix pipeline=1, because " +
      reason);
}

/// Refuses software of which nothing was measured.
double probability_of(std::string const& text, SearchRequest const& request) {
  auto const given = parse_number<double>(text);
  if (!given || *given < 0 || *given >= 1) {
    throw CommandLineError{"--safety", "'" + text + "'",
                           "a probability from 0 to below 1, such as 0.99"};
  }
  double const probability = *given;
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

}  // namespace

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

void read_safety(std::string const& text, PlanOptions& options) {
  options.request.safety = probability_of(text, options.request);
  if (options.request.safety > 0) keep_to_measured_pipelines(options);
}

}  // namespace stagecraft
