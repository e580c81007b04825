#include "libsim/report/paper/reproduce.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include "libsim/report/paper/paper_figures.hpp"
#include "libsim/report/paper/paper_tables.hpp"

namespace stagecraft {
namespace {

struct Entry {
  std::string_view name;
  std::vector<Reproduction> (*predict)(std::filesystem::path const&);
};

constexpr std::array entries{
    Entry{"table2", reproduce_table2},        Entry{"table4", reproduce_table4},
    Entry{"table5", reproduce_table5},        Entry{"headline", reproduce_headline},
    Entry{"figure1", reproduce_figure1},      Entry{"figure7", reproduce_figure7},
    Entry{"figure8", reproduce_figure8},      Entry{"figure9", reproduce_figure9},
    Entry{"appendix-c", reproduce_appendix_c}};

}  // namespace

std::vector<std::string_view> reproducible() {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (Entry const& entry : entries) names.push_back(entry.name);
  return names;
}

std::vector<Reproduction> reproduce(std::string_view what,
                                    std::filesystem::path const& paper_configs) {
  for (Entry const& entry : entries) {
    if (entry.name == what) return entry.predict(paper_configs);
  }
  throw std::invalid_argument("nothing to reproduce is called '" + std::string{what} + "'");
}

}  // namespace stagecraft
