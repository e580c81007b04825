#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hdf5/column_values.hpp"
#include "libsim/hdf5/hdf5_handle.hpp"

namespace stagecraft {

/// A group of an untrusted HDF5 file. All functions throw Hdf5Error, with the path inside the file,
/// what was found and what is accepted.
///
/// Only hard links are followed, so that soft links can neither loop nor lead to other files. Sizes
/// are checked before anything is allocated.
class Hdf5Group {
 public:
  Hdf5Group(H5Handle group, std::string path) : group_{std::move(group)}, path_{std::move(path)} {}

  std::string const& path() const { return path_; }

  Hdf5Group group(std::string const& name) const;
  /// The names of the links. There may be at most `most`.
  std::vector<std::string> links(std::size_t most) const;
  bool has_link(std::string const& name) const;
  bool has_attribute(std::string const& name) const;
  /// An attribute that is one text of fixed length, at most `most` bytes.
  std::string text(std::string const& attribute, std::size_t most) const;
  /// An attribute that is one 64-bit integer from 0 to 2^31 - 1.
  std::int32_t number(std::string const& attribute) const;
  /// An attribute: one 64-bit integer, or one real number.
  std::int64_t integer(std::string const& attribute) const;
  double real(std::string const& attribute) const;
  /// A dataset of numbers of any type and layout, converted; at most `most` of them.
  std::vector<std::int64_t> integers(std::string const& name, std::size_t most) const;
  std::vector<double> reals(std::string const& name, std::size_t most) const;
  /// A dataset of texts of fixed length.
  std::vector<std::string> names(std::string const& name) const;
  /// A dataset of 64-bit integers. It may have at most `budget` elements, which it subtracts.
  std::vector<std::int64_t> column(std::string_view name, std::int64_t& budget) const;
  /// The same for 64-bit integers, doubles, or texts of a fixed length that is a multiple of 8
  /// bytes. `unit` becomes its attribute of that name.
  ColumnValues any_column(std::string_view name, std::int64_t& budget, std::string& unit) const;

 private:
  /// The rows of a dataset, each of `words` 64-bit words.
  static std::vector<std::int64_t> words_of(H5Handle const& values,
                                            std::string const& where,
                                            std::size_t words,
                                            std::int64_t& budget);
  std::string path_of(std::string_view name) const;
  static std::string text_attribute(H5Handle const& object,
                                    std::string const& name,
                                    std::string const& path,
                                    std::size_t most);
  static H5Handle open_attribute(H5Handle const& object,
                                 std::string const& name,
                                 std::string const& where);
  H5Handle dataset(std::string const& name) const;
  void read_scalar(std::string const& attribute, hid_t type, void* value) const;
  template <typename Number>
  std::vector<Number> numbers(std::string const& name, hid_t type, std::size_t most) const;
  void require_hard_link(std::string const& name, std::string const& what) const;

  H5Handle group_;
  std::string path_;
};

/// Which files are opened: those of Hdf5Image only, whose format, superblock 2, has a checksum on
/// everything that HDF5 parses; or also those of HDF5's default, which have none, and whose damage
/// can crash HDF5 1.10.
enum class Hdf5Format { checked, any };

/// An open HDF5 file.
class Hdf5File {
 public:
  /// \throws Hdf5Error
  static Hdf5File open(std::filesystem::path const& path, Hdf5Format format = Hdf5Format::checked);
  static Hdf5File open(std::span<unsigned char const> image);

  Hdf5Group root() const;

 private:
  explicit Hdf5File(H5Handle file) : file_{std::move(file)} {}

  H5Handle file_;
};

}  // namespace stagecraft
