#include <sys/resource.h>
#include <zlib.h>

#include <catch2/catch.hpp>

#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_reader.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::trace_hostile_test {

namespace {

using Catch::Contains;

constexpr hsize_t huge = hsize_t{1} << 60;

void read_everything(std::filesystem::path const& path) { TraceReader{path}.read_all(); }

void read_changed(std::function<void(hid_t file)> const& change) {
  TemporaryFolder const folder;
  write_changed_sample(folder.file("a.h5"), change);
  read_everything(folder.file("a.h5"));
}

void read_with_start(hid_t type, std::vector<hsize_t> const& extents, hid_t properties) {
  read_changed([&](hid_t file) { replace_start(file, type, extents, properties); });
}

/// Replaces attribute `device` by one of another type and shape, not written to.
void read_with_device(hid_t type, hid_t space) {
  read_changed([&](hid_t file) {
    H5Adelete(file, "device");
    H5Aclose(H5Acreate2(file, "device", type, space, H5P_DEFAULT, H5P_DEFAULT));
  });
}

hid_t text_type(std::size_t size) {
  hid_t const type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, size);
  return type;
}

/// Most memory this process has held so far, in bytes.
std::int64_t most_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

/// What inflates to `pieces` MiB of zeros. Made piece by piece: this process must not have held
/// them.
std::vector<unsigned char> compressed_zeros(int pieces) {
  std::vector<unsigned char> zeros(std::size_t{1} << 20);
  std::vector<unsigned char> bytes(std::size_t{1} << 20);
  z_stream stream{};
  deflateInit(&stream, 9);
  stream.next_out = bytes.data();
  stream.avail_out = static_cast<uInt>(bytes.size());
  for (int i = 1; i <= pieces; ++i) {
    stream.next_in = zeros.data();
    stream.avail_in = static_cast<uInt>(zeros.size());
    deflate(&stream, i == pieces ? Z_FINISH : Z_NO_FLUSH);
  }
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

void write_first_chunk(hid_t file, std::vector<unsigned char> const& bytes) {
  hid_t const dataset = H5Dopen2(file, "/ranks/0/ops/start", H5P_DEFAULT);
  hsize_t const offset = 0;
  H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &offset, bytes.size(), bytes.data());
  H5Dclose(dataset);
}

}  // namespace

TEST_CASE("columns of another type or shape are refused") {
  REQUIRE_THROWS_AS(read_with_start(H5T_STD_I32LE, {6}, chunked(6)), TraceFileError);
  for (hid_t const type : {H5T_STD_I32LE, H5T_STD_I64BE, H5T_STD_U64LE, H5T_IEEE_F64LE}) {
    REQUIRE_THROWS_WITH(read_with_start(type, {6}, chunked(6)),
                        Contains("/ranks/0/ops/start: found another type"));
  }
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {6, 1}, H5P_DEFAULT),
                      Contains("/ranks/0/ops/start: found another shape"));
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {6}, H5P_DEFAULT),
                      Contains("/ranks/0/ops/start: found another layout"));
}

TEST_CASE("a dataset that claims 2^60 elements is refused and takes no memory") {
  std::int64_t const before = most_memory();
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {huge}, chunked(1024)),
                      Contains("/ranks/0/ops/start: found 1152921504606846976 rows"));
  REQUIRE_THROWS_WITH(
      read_changed([](hid_t file) {
        H5Ldelete(file, "/names/op", H5P_DEFAULT);
        hid_t const type = text_type(1);
        hid_t const space = H5Screate_simple(1, &huge, nullptr);
        H5Dclose(H5Dcreate2(file, "/names/op", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        H5Sclose(space);
        H5Tclose(type);
      }),
      Contains("/names/op: found 1152921504606846976 names of 1 bytes"));
  REQUIRE(most_memory() - before < 64 << 20);
}

TEST_CASE("rows without data are refused before room is made for them") {
  std::int64_t const before = most_memory();
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {100'000'000}, chunked(100'000)),
                      Contains("/ranks/0/ops/start: found rows without data"));
  REQUIRE(most_memory() - before < 64 << 20);
}

TEST_CASE("a chunk that inflates beyond its size is refused and takes no memory") {
  std::vector<unsigned char> const bomb = compressed_zeros(200);
  REQUIRE(bomb.size() < 131'072 * 8);  // small enough to be a chunk
  std::int64_t const before = most_memory();
  REQUIRE_THROWS_WITH(read_changed([&](hid_t file) {
                        hid_t const properties = chunked(131'072);
                        H5Pset_deflate(properties, 1);
                        replace_start(file, H5T_STD_I64LE, {131'072}, properties);
                        write_first_chunk(file, bomb);
                      }),
                      Contains("/ranks/0/ops/start, row 0: the chunk is damaged"));
  REQUIRE(most_memory() - before < 64 << 20);
}

TEST_CASE("chunks that are too large, and compressed with anything but deflate, are refused") {
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {1'000'000}, chunked(1'000'000)),
                      Contains("/ranks/0/ops/start: found chunks of 1000000 elements"));
  hid_t const szip = chunked(6);
  H5Pset_scaleoffset(szip, H5Z_SO_INT, 0);
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {6}, szip), Contains("found filter 6"));
  hid_t const twice = chunked(6);
  H5Pset_deflate(twice, 1);
  H5Pset_deflate(twice, 1);
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {6}, twice), Contains("found filter 1"));
}

TEST_CASE("attributes that are giant, several, or no text of fixed length are refused") {
  hid_t const scalar = H5Screate(H5S_SCALAR);
  hsize_t const two = 2;
  REQUIRE_THROWS_WITH(read_with_device(text_type(std::size_t{100} << 20), scalar),
                      Contains("attribute device: found 104857600 bytes"));
  REQUIRE_THROWS_WITH(read_with_device(text_type(H5T_VARIABLE), scalar),
                      Contains("attribute device: found another type"));
  REQUIRE_THROWS_WITH(read_with_device(H5T_STD_I64LE, scalar),
                      Contains("attribute device: found another type"));
  REQUIRE_THROWS_WITH(read_with_device(text_type(4), H5Screate_simple(1, &two, nullptr)),
                      Contains("attribute device: found several values"));
  REQUIRE_THROWS_WITH(read_with_device(text_type(4), H5Screate(H5S_NULL)),
                      Contains("attribute device: found several values"));
}

TEST_CASE("links to other files and loops of links are not followed") {
  auto const refuses = [](std::function<void(hid_t)> const& relink) {
    REQUIRE_THROWS_WITH(read_changed([&](hid_t file) {
                          H5Ldelete(file, "/ranks/0/ops", H5P_DEFAULT);
                          relink(file);
                        }),
                        Contains("/ranks/0/ops: found a link to elsewhere; accepted: a group"));
  };
  refuses([](hid_t file) {
    H5Lcreate_external("/etc/passwd", "/", file, "/ranks/0/ops", H5P_DEFAULT, H5P_DEFAULT);
  });
  refuses([](hid_t file) {
    H5Lcreate_soft("/ranks/0/ops", file, "/ranks/0/ops", H5P_DEFAULT, H5P_DEFAULT);
  });
}

TEST_CASE("formats without checksums are refused before HDF5 parses them") {
  TemporaryFolder const folder;
  hid_t const access = H5Pcreate(H5P_FILE_ACCESS);
  for (auto const& [format, version] :
       {std::pair{H5F_LIBVER_EARLIEST, 0}, std::pair{H5F_LIBVER_V110, 3}}) {
    H5Pset_libver_bounds(access, format, H5F_LIBVER_LATEST);
    H5Fclose(H5Fcreate(folder.file("a.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
    REQUIRE_THROWS_WITH(
        read_everything(folder.file("a.h5")),
        Contains("HDF5 superblock: found version " + std::to_string(version) + "; accepted: 2"));
  }
  H5Pclose(access);
}

TEST_CASE("data outside the file is not read") {
  hid_t const external = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(external, "/etc/passwd", 0, 48);
  REQUIRE_THROWS_WITH(read_with_start(H5T_STD_I64LE, {6}, external),
                      Contains("/ranks/0/ops/start: found another layout"));
  REQUIRE_THROWS_WITH(
      read_changed([](hid_t file) {
        H5Ldelete(file, "/names/op", H5P_DEFAULT);
        hid_t const properties = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_external(properties, "/etc/passwd", 0, 2);
        hsize_t const rows = 2;
        hid_t const type = text_type(1);
        hid_t const space = H5Screate_simple(1, &rows, nullptr);
        H5Dclose(H5Dcreate2(file, "/names/op", type, space, H5P_DEFAULT, properties, H5P_DEFAULT));
        H5Sclose(space);
        H5Tclose(type);
        H5Pclose(properties);
      }),
      Contains("/names/op: found another layout"));
}

}  // namespace stagecraft::trace_hostile_test
