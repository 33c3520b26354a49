import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Reads payloads with the Java libraries of Avro and Protobuf, and writes what it read.
 *
 * <p>A request is a letter (A: Avro, P: Protobuf; small ones measure), the schema (of Protobuf: a set
 * of file descriptors, and the name of a message), a number of payloads, and these; each text has its
 * length before it, in four bytes. The answer to a capital letter is each payload as it is written
 * again, or a length of -1 and a message; to a small one, the microseconds of CPU of reading and of
 * writing one.
 */
public final class Interchange {
    private interface Codec {
        Object read(byte[] payload) throws IOException;

        byte[] write(Object value) throws IOException;
    }

    private static final int REPEATS = 9;

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        for (int letter = in.read(); letter >= 0; letter = in.read()) {
            Codec codec = Character.toUpperCase(letter) == 'A' ? avro(in) : protobuf(in);
            byte[][] payloads = new byte[in.readInt()][];
            for (int n = 0; n < payloads.length; n++) {
                payloads[n] = bytes(in);
            }
            if (Character.isUpperCase(letter)) {
                writeAgain(codec, payloads, out);
            } else {
                measure(codec, payloads, out);
            }
            out.flush();
        }
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        return in.readNBytes(in.readInt());
    }

    private static Codec avro(DataInputStream in) throws IOException {
        Schema schema = new Schema.Parser().parse(new String(bytes(in), StandardCharsets.UTF_8));
        GenericDatumReader<Object> reader = new GenericDatumReader<>(schema);
        GenericDatumWriter<Object> writer = new GenericDatumWriter<>(schema);
        return new Codec() {
            private BinaryDecoder decoder;
            private BinaryEncoder encoder;

            @Override
            public Object read(byte[] payload) throws IOException {
                decoder = DecoderFactory.get().binaryDecoder(payload, decoder);
                Object found = reader.read(null, decoder);
                if (!decoder.isEnd()) {
                    throw new IOException("there are bytes behind the record");
                }
                return found;
            }

            @Override
            public byte[] write(Object value) throws IOException {
                ByteArrayOutputStream made = new ByteArrayOutputStream();
                // Blocks with their sizes, which few other libraries write.
                encoder = EncoderFactory.get().blockingBinaryEncoder(made, encoder);
                writer.write(value, encoder);
                encoder.flush();
                return made.toByteArray();
            }
        };
    }

    private static Codec protobuf(DataInputStream in) throws IOException {
        FileDescriptorSet files = FileDescriptorSet.parseFrom(bytes(in));
        String name = new String(bytes(in), StandardCharsets.UTF_8);
        Descriptor message = descriptor(files, name);
        return new Codec() {
            @Override
            public Object read(byte[] payload) throws IOException {
                return DynamicMessage.parseFrom(message, payload);
            }

            @Override
            public byte[] write(Object value) {
                return ((DynamicMessage) value).toByteArray();
            }
        };
    }

    private static Descriptor descriptor(FileDescriptorSet files, String name) throws IOException {
        Map<String, FileDescriptor> known = new HashMap<>();
        for (FileDescriptorProto file : files.getFileList()) {
            FileDescriptor[] imported =
                    file.getDependencyList().stream().map(known::get).toArray(FileDescriptor[]::new);
            try {
                known.put(file.getName(), FileDescriptor.buildFrom(file, imported));
            } catch (com.google.protobuf.Descriptors.DescriptorValidationException error) {
                throw new IOException(error);
            }
        }
        for (FileDescriptor file : known.values()) {
            for (Descriptor message : file.getMessageTypes()) {
                if (message.getFullName().equals(name)) {
                    return message;
                }
            }
        }
        throw new IOException("there is no message " + name);
    }

    private static void writeAgain(Codec codec, byte[][] payloads, DataOutputStream out)
            throws IOException {
        for (byte[] payload : payloads) {
            byte[] made;
            try {
                made = codec.write(codec.read(payload));
                out.writeInt(made.length);
            } catch (IOException | RuntimeException error) {
                made = String.valueOf(error).getBytes(StandardCharsets.UTF_8);
                out.writeInt(-1);
                out.writeInt(made.length);
            }
            out.write(made);
        }
    }

    private static void measure(Codec codec, byte[][] payloads, DataOutputStream out)
            throws IOException {
        Object[] values = new Object[payloads.length];
        double reading = Double.MAX_VALUE;
        double writing = Double.MAX_VALUE;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            long began = cpu();
            for (int n = 0; n < payloads.length; n++) {
                values[n] = codec.read(payloads[n]);
            }
            long between = cpu();
            for (Object value : values) {
                codec.write(value);
            }
            reading = Math.min(reading, between - began);
            writing = Math.min(writing, cpu() - between);
        }
        out.writeDouble(reading / 1e3 / payloads.length);
        out.writeDouble(writing / 1e3 / payloads.length);
    }

    /** Nanoseconds of CPU of this thread: what the compiler and the collector take is not counted. */
    private static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
