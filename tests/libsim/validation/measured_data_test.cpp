#include <catch2/catch.hpp>
#include <filesystem>

#include "libsim/interval/measured_range.hpp"
#include "libsim/validation/data_file.hpp"

namespace stagecraft::measured_data_test {

TEST_CASE("every run that was measured lies within what is called measured", "[validation]") {
  std::filesystem::path const folder =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "experiments" / "validation";
  std::string const name = GENERATE("nanotron", "narayanan-2021", "published", "published-context",
                                    "published-moe", "vtrain-multi-node", "vtrain-single-node");
  RunVariants const base = load_run_variants(folder / (name + ".yaml"), {});
  DataFile const data{folder / "data" / (name + ".csv")};
  int seen = 0;
  // Every 16th of the long files: they are crosses of a few values.
  std::size_t const step = data.rows() > 100 ? 16 : 1;
  for (std::size_t i = 0; i < data.rows(); i += step) {
    DataRow const row = data.row(i, base);
    if (!row.run || !row.measured.iteration_seconds) continue;
    CAPTURE(name, i);
    REQUIRE(unmeasured_settings(row.run->training, row.run->system).empty());
    ++seen;
  }
  REQUIRE(seen >= 10);
}

}  // namespace stagecraft::measured_data_test
