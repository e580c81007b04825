#include "apps/stagecraft/plan/table_columns.hpp"

#include <sstream>

namespace stagecraft {

std::vector<std::string> TableColumns::lines() const {
  TextTable table{columns_};
  for (auto const& row : cells_) table.add_row(row);
  std::istringstream text{table.text()};
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::size_t width_of(std::vector<std::string> const& lines) {
  std::size_t width = 0;
  for (std::string const& line : lines) width = std::max(width, columns_of(line));
  return width;
}

}  // namespace stagecraft
