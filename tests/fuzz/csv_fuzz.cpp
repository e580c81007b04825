#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "libsim/config/problem.hpp"
#include "libsim/run/run_variants.hpp"
#include "libsim/validation/data_file.hpp"

namespace {

using namespace stagecraft;

std::filesystem::path const folder =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper";

RunVariants const& base() {
  static RunVariants const runs = load_run_variants(folder / "22b-present.yaml", {});
  return runs;
}

/// The cells of a table, each in quotes.
std::string quoted(CsvTable const& table) {
  std::string text;
  auto const add = [&](std::vector<CsvCell> const& cells) {
    for (CsvCell const& cell : cells) {
      text += text.empty() || text.back() == '\n' ? "\"" : ",\"";
      for (char const c : cell.text) text += c == '"' ? std::string{"\"\""} : std::string{c};
      text += '"';
    }
    text += '\n';
  };
  add(table.header());
  for (std::size_t row = 0; row < table.rows(); ++row) add(table.row(row));
  return text;
}

/// What is a table is the same table with all cells in quotes. Rows that can be read have no
/// problem, and all others have one.
void read_data(std::string_view input) {
  try {
    CsvTable const table{std::string{input}, "fuzz.csv"};
    std::string const text = quoted(table);
    if (quoted(CsvTable{text, "again.csv"}) != text) std::abort();
    DataFile const file{std::string{input}, folder / "fuzz.csv"};
    file.check(base());
    for (std::size_t i = 0; i < file.rows() && i < 100; ++i) {
      DataRow const row = file.row(i, base());
      if (row.run.has_value() != row.problems.empty()) std::abort();
    }
  } catch (ConfigError const&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  read_data(std::string_view{reinterpret_cast<char const*>(data), size});
  return 0;
}
